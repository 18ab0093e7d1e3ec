"""Runs one cell, as the side that has images and labels: gives batches, takes answers, scores them.

The method adapts in this process, or in a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tta_bench.data import loading
from tta_bench.data.images import ImageSet
from tta_bench.files import now
from tta_bench.isolation.adaptation import adapt
from tta_bench.isolation.adapter import Setup, in_order
from tta_bench.isolation.logits import Answer
from tta_bench.isolation.prepared import Cost, Prepared, State
from tta_bench.isolation.scores import Scorer
from tta_bench.measure.metrics import scores_of
from tta_bench.records.cell import Cell
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Measured, Record
from tta_bench.streams.stream import Stream

OnBatch = Callable[[int, float, NDArray[np.int32]], None]  # images done, running accuracy, this batch's predictions


def ignore(images: int, accuracy: float, prediction: NDArray[np.int32]) -> None:
    """For callers that follow no batches."""


@dataclass(frozen=True)
class Work:
    """A cell together with what it needs to run."""

    cell: Cell
    setup: Setup
    stream: Stream
    source_images: ImageSet | None = None  # only for a method that needs them
    workers: int | None = None  # processes that read images; None: as many as help
    prepared: Prepared = field(default_factory=Prepared)  # what methods learned from source images before


class WorkHost:
    """The host of one cell's work."""

    def __init__(self, work: Work, on_batch: OnBatch) -> None:
        self.work = work
        self.scores = Scorer()
        self._on_batch = on_batch
        self._order = list(work.stream.batches(work.setup.batch_size))
        self._waiting = iter(self._order)

    def known(self) -> tuple[State, Cost] | None:
        return self.work.prepared.find(self.work.cell)

    def source(self) -> Iterator[Tensor] | None:
        images = self.work.source_images
        return None if images is None else self._read(images, in_order(images, self.work.setup.batch_size))

    def source_labels(self) -> Iterator[Tensor]:
        images = self.work.source_images
        if images is not None:
            for positions in in_order(images, self.work.setup.batch_size):
                yield torch.from_numpy(images.labels[positions])

    def batches(self) -> Iterator[Tensor]:
        return self._read(self.work.stream.images, self._order)

    def learned(self, state: State, cost: Cost) -> None:
        self.work.prepared.keep(self.work.cell, state, cost)

    def answer(self, answer: Answer) -> None:
        indices = next(self._waiting)
        self.scores.add(indices, self.work.stream.images.labels[indices], answer)
        self._on_batch(self.scores.images, self.scores.accuracy, answer.prediction)

    def _read(self, images: ImageSet, order: list[NDArray[np.int64]]) -> Iterator[Tensor]:
        count = loading.default_workers(images) if self.work.workers is None else self.work.workers
        with closing(loading.read_ahead(images, order, workers=count)) as batches:
            yield from batches


Adapt = Callable[[WorkHost], Measured]


def adapt_here(host: WorkHost) -> Measured:
    """Adapt in this process."""
    return adapt(host.work.setup, host)


def run_cell(work: Work, on_batch: OnBatch = ignore, adapt: Adapt = adapt_here) -> tuple[Record, Predictions]:
    """Run a cell. Exceptions of the method are passed on; bad logits raise CellFailed."""
    host = WorkHost(work, on_batch)
    measured = adapt(host)
    predictions = host.scores.predictions(work.stream)
    record = Record(
        cell=work.cell,
        status="done",
        scores=scores_of(predictions, work.cell.spec.tasks),
        measured=measured,
        finished_at=now(),
    )
    return record, predictions
