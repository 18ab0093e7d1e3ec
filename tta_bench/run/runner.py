"""Runs one cell: fresh model, fresh method, one pass over the stream. Only `adapt` is inside the timer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tta_bench.data import loading
from tta_bench.data.images import ImageSet
from tta_bench.errors import CellFailed
from tta_bench.files import now
from tta_bench.measure import environment, memory
from tta_bench.measure.clock import Stopwatch
from tta_bench.measure.cost import CostCounter
from tta_bench.measure.metrics import expected_calibration_error
from tta_bench.method import Method
from tta_bench.models.precision import autocast, compiled
from tta_bench.models.source import SourceModel
from tta_bench.records.cell import Cell
from tta_bench.records.record import Predictions, Record
from tta_bench.registry import build_method
from tta_bench.streams.stream import Stream

OnBatch = Callable[[int, float], None]  # images done, running accuracy


@dataclass(frozen=True)
class Work:
    """A cell together with what it needs to run."""

    label: str  # of the row in tables
    cell: Cell
    stream: Stream
    source_images: ImageSet | None  # only for a method that needs them
    model: SourceModel
    num_classes: int
    class_mask: tuple[int, ...] | None
    device: torch.device
    workers: int | None = None  # that read images; None: as many as help


def run_cell(work: Work, on_batch: OnBatch = lambda images, accuracy: None) -> tuple[Record, Predictions]:
    """Run a cell to its end. Whatever the method raises comes through; bad logits are a CellFailed."""
    cell, device = work.cell, work.device
    memory.start(device)
    building, preparing, adapting = (Stopwatch(device) for _ in range(3))
    reading = Stopwatch(torch.device("cpu"))  # on a GPU, the copy of the next batch goes on meanwhile
    with building:
        model, method = build(work)
    with CostCounter(model) as prepared, preparing:
        prepare(work, method)
    prepare_memory = memory.peak(device)
    if method.needs_source:
        memory.start(device)  # what is learned from source images once is not what adapting takes

    scores = Scores(work.stream.images.labels, work.num_classes)
    plan = list(work.stream.batches(cell.batch_size))
    reset_batches: list[int] = []
    with CostCounter(model) as cost, closing(read(work, work.stream.images, plan)) as batches:
        for number, indices in enumerate(plan):
            with reading:
                batch = next(batches)
            resets = method.resets
            with adapting, autocast(device, cell.amp):
                logits = method.adapt(batch)
            if method.resets > resets:
                reset_batches.append(number)
            scores.add(indices, logits)
            on_batch(scores.images, scores.accuracy)

    predictions = scores.predictions()
    record = Record(
        cell=cell,
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


def build(work: Work) -> tuple[nn.Module, Method]:
    """A fresh model and a fresh method on it."""
    cell = work.cell
    model = work.model.fresh(work.device, work.class_mask)
    if cell.compile:
        model = compiled(model)
    method = build_method(
        cell.method, model, num_classes=work.num_classes, batch_size=cell.batch_size, params=cell.settings
    )
    return model, method


def prepare(work: Work, method: Method) -> None:
    """Show source images to a method that needs them."""
    if method.needs_source:
        with autocast(work.device, work.cell.amp):
            method.prepare(source_batches(work))


def read(work: Work, images: ImageSet, plan: Iterable[NDArray[np.int64]]) -> loading.Batches:
    """Batches on the cell's device, read ahead by as many processes as help."""
    workers = loading.default_workers(images) if work.workers is None else work.workers
    return loading.batches(images, plan, work.device, workers=workers)


def source_batches(work: Work) -> Iterator[Tensor]:
    """Clean source images in batches of the cell's size, in their own order."""
    images = work.source_images
    assert images is not None, "the plan gives them to methods that need them"
    positions, size = np.arange(len(images.ids)), work.cell.batch_size
    with closing(read(work, images, [positions[i : i + size] for i in range(0, len(positions), size)])) as batches:
        yield from batches


def per_task(stream: Stream, predictions: Predictions) -> dict[str, float]:
    """Accuracy of each task of a stream, in the stream's order of tasks."""
    task = stream.task_of(predictions.index)
    return {
        name: float(predictions.correct[task == name].mean()) for name in dict.fromkeys(stream.tasks) if name in task
    }


class Scores:
    """Gathers per-sample scores batch by batch, off the timed path."""

    def __init__(self, labels: NDArray[np.int64], num_classes: int) -> None:
        self.labels = labels
        self.num_classes = num_classes
        self.images = 0
        self.hits = 0
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], Tensor, Tensor, Tensor, Tensor]] = []

    @property
    def accuracy(self) -> float:
        return self.hits / max(self.images, 1)

    @torch.no_grad()
    def add(self, indices: NDArray[np.int64], logits: Tensor) -> None:
        """Score one batch of logits, after checking that they are logits."""
        expected = (len(indices), self.num_classes)
        if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise CellFailed(f"adapt returned {got} after {self.images} images, expected logits of shape {expected}")
        label = self.labels[indices]
        p = logits.float().softmax(1)
        confidence, prediction = p.max(1)
        truth = torch.from_numpy(label).to(logits.device)
        top5 = logits.topk(min(5, self.num_classes), 1).indices
        # One transfer per batch: a GPU would wait for each.
        rows = [prediction, confidence, torch.special.entr(p).sum(1), (top5 == truth[:, None]).any(1)]
        finite = torch.isfinite(logits).all(1)
        table = torch.stack([row.float() for row in (*rows, finite)]).cpu()
        if not table[4].all():
            raise CellFailed(f"adapt returned NaN or infinite logits after {self.images} images")
        found = table[0].long()
        self._parts.append((indices, label, found, table[1], table[2], table[3].bool()))
        self.images += len(indices)
        self.hits += int((found.numpy() == label).sum())

    def predictions(self) -> Predictions:
        index, label, prediction, confidence, entropy, in_top5 = zip(*self._parts, strict=True)
        return Predictions(
            index=np.concatenate(index),
            label=np.concatenate(label),
            prediction=torch.cat(prediction).numpy(),
            in_top5=torch.cat(in_top5).numpy(),
            confidence=torch.cat(confidence).numpy(),
            entropy=torch.cat(entropy).numpy(),
        )
