"""Runs one cell: fresh model, fresh method, one pass over the stream. Only `adapt` is inside the timer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace

import torch

from tta_bench.data.images import ImageSet
from tta_bench.files import now
from tta_bench.measure import environment, memory
from tta_bench.measure.clock import Stopwatch
from tta_bench.measure.cost import CostCounter
from tta_bench.measure.metrics import scores_of
from tta_bench.measure.process import restored
from tta_bench.records.cell import Cell
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.runs.fairness import Watch, require_plain_logits
from tta_bench.runs.prepared import Cost, Prepared
from tta_bench.runs.scores import Scores
from tta_bench.runs.session import Session, Setup, read, source_batches, source_labels
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
    prepared: Prepared = field(default_factory=Prepared)  # what methods learned from source images before


@dataclass(frozen=True)
class Learned:
    """How a method got what it needs from source images, and the cost of learning it."""

    how: str = ""  # "learned" here, or "read": learned by another cell; empty if it needs nothing
    cost: Cost | None = None


def run_cell(work: Work, on_batch: OnBatch = lambda images, accuracy: None) -> tuple[Record, Predictions]:
    """Run a cell. Exceptions of the method are passed on; bad logits raise CellFailed.

    Process state that the method changes is restored, so that it cannot affect another method's result.
    """
    with restored() as changed:
        record, predictions = _run_cell(work, on_batch)
    left = [f"changed {name} (restored)" for name in changed]
    return replace(record, remarks=[*record.remarks, *left]), predictions


def _run_cell(work: Work, on_batch: OnBatch) -> tuple[Record, Predictions]:
    setup, device = work.setup, work.setup.device
    memory.start(device)
    building, adapting = Stopwatch(device), Stopwatch(device)
    reading = Stopwatch(torch.device("cpu"))  # on a GPU, the next batch is copied meanwhile
    with building:
        session = Session(setup)
    method = session.method
    learned = prepare(work, session)
    if learned.cost is not None:
        memory.start(device)  # the memory of preparing once is not the memory of adapting

    watch = Watch(method, session.model)
    scores = Scores(work.stream.images.labels, setup.num_classes)
    order = list(work.stream.batches(setup.batch_size))
    reset_batches: list[int] = []
    images = read(work.stream.images, order, device, work.workers)
    with CostCounter(session.model) as cost, closing(images) as batches:
        for number, indices in enumerate(order):
            with reading:
                batch = next(batches)
            resets, version = method.resets, batch._version
            with adapting:
                logits = session.adapt(batch)
            watch.batch(batch, version)
            require_plain_logits(logits)
            if method.resets > resets:
                reset_batches.append(number)
            scores.add(indices, logits)
            on_batch(scores.images, scores.accuracy)

    predictions = scores.predictions(work.stream)
    record = Record(
        cell=work.cell,
        label=work.label,
        status="done",
        **scores_of(predictions, work.cell.tasks),
        score_point=method.score_point,
        needs_source=method.needs_source,
        resets=method.resets,
        reset_batches=reset_batches,
        seconds={
            "adapt": adapting.total,
            "first_batch": adapting.laps[0],
            "load": reading.total,
            "prepare": learned.cost.seconds if learned.cost else 0.0,
            "build": building.total,
        },
        batch_seconds=adapting.laps,
        sample_forwards=cost.sample_forwards,
        sample_backwards=cost.sample_backwards,
        prepared=learned.how,
        prepare_forwards=learned.cost.sample_forwards if learned.cost else 0,
        prepare_backwards=learned.cost.sample_backwards if learned.cost else 0,
        memory={**memory.peak(device), "prepare_bytes": learned.cost.bytes if learned.cost else 0},
        environment=environment.describe(device),
        finished_at=now(),
        remarks=watch.close(),
    )
    return record, predictions


def prepare(work: Work, session: Session) -> Learned:
    """Let a method learn from source images, or load what it learned in another cell."""
    source, setup = work.source_images, work.setup
    if source is None:
        return Learned()
    known = work.prepared.find(work.cell)
    if known is not None:
        state, cost = known
        session.method.load_prepared_state({name: tensor.to(setup.device) for name, tensor in state.items()})
        return Learned("read", cost)
    preparing = Stopwatch(setup.device)
    with CostCounter(session.model) as counted, preparing:
        session.prepare(source_batches(source, setup, work.workers), source_labels(source, setup))
    peak = int(memory.peak(setup.device)["bytes"])
    cost = Cost(preparing.total, counted.sample_forwards, counted.sample_backwards, peak)
    work.prepared.keep(work.cell, session.method.prepared_state(), cost)
    return Learned("learned", cost)
