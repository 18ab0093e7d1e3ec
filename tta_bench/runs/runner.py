"""Runs one cell: fresh model, fresh method, one pass over the stream. Only `adapt` is inside the timer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import torch

from tta_bench.data.images import ImageSet
from tta_bench.files import now
from tta_bench.measure import environment, memory
from tta_bench.measure.clock import Stopwatch
from tta_bench.measure.cost import CostCounter
from tta_bench.measure.metrics import expected_calibration_error
from tta_bench.records.cell import Cell
from tta_bench.records.record import Predictions, Record
from tta_bench.runs.scores import Scores, per_task
from tta_bench.runs.session import Session, Setup, read, read_in_order
from tta_bench.streams.stream import Stream

OnBatch = Callable[[int, float], None]  # images done, running accuracy


@dataclass(frozen=True)
class Work:
    """A cell together with what it needs to run."""

    label: str  # of the row in tables
    cell: Cell
    setup: Setup
    stream: Stream
    source_images: ImageSet | None = None  # only for a method that needs them
    workers: int | None = None  # processes that read images; None: as many as help


def run_cell(work: Work, on_batch: OnBatch = lambda images, accuracy: None) -> tuple[Record, Predictions]:
    """Run a cell to its end. Whatever the method raises comes through; bad logits are a CellFailed."""
    setup, device = work.setup, work.setup.device
    memory.start(device)
    building, preparing, adapting = (Stopwatch(device) for _ in range(3))
    reading = Stopwatch(torch.device("cpu"))  # on a GPU, the copy of the next batch goes on meanwhile
    with building:
        session = Session(setup)
    method = session.method
    with CostCounter(session.model) as prepared, preparing:
        if work.source_images is not None:
            session.prepare(read_in_order(work.source_images, setup.batch_size, device, work.workers))
    prepare_memory = memory.peak(device)
    if method.needs_source:
        memory.start(device)  # what is learned from source images once is not what adapting takes

    scores = Scores(work.stream.images.labels, setup.num_classes)
    order = list(work.stream.batches(setup.batch_size))
    reset_batches: list[int] = []
    images = read(work.stream.images, order, device, work.workers)
    with CostCounter(session.model) as cost, closing(images) as batches:
        for number, indices in enumerate(order):
            with reading:
                batch = next(batches)
            resets = method.resets
            with adapting:
                logits = session.adapt(batch)
            if method.resets > resets:
                reset_batches.append(number)
            scores.add(indices, logits)
            on_batch(scores.images, scores.accuracy)

    predictions = scores.predictions()
    record = Record(
        cell=work.cell,
        label=work.label,
        status="done",
        samples=len(predictions.label),
        top1=float(predictions.correct.mean()),
        top5=float(predictions.in_top5.mean()),
        task_top1=per_task(work.stream, predictions),
        ece=expected_calibration_error(predictions.confidence, predictions.correct),
        score_point=method.score_point,
        needs_source=method.needs_source,
        resets=method.resets,
        reset_batches=reset_batches,
        seconds={
            "adapt": adapting.total,
            "first_batch": adapting.laps[0],
            "load": reading.total,
            "prepare": preparing.total,
            "build": building.total,
        },
        batch_seconds=adapting.laps,
        sample_forwards=cost.sample_forwards,
        sample_backwards=cost.sample_backwards,
        prepare_forwards=prepared.sample_forwards,
        prepare_backwards=prepared.sample_backwards,
        memory={**memory.peak(device), "prepare_bytes": prepare_memory["bytes"]},
        environment=environment.describe(device),
        finished_at=now(),
    )
    return record, predictions
