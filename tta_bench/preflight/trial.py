"""A trial of a method on a few real images: what would fail a cell after an hour is known after a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tta_bench.data import loading
from tta_bench.data.images import ImageSet
from tta_bench.errors import CellFailed, UserError
from tta_bench.method import Method
from tta_bench.models.precision import autocast
from tta_bench.run.runner import Scores
from tta_bench.streams.stream import Stream

T = TypeVar("T")
BATCH = 2  # images: enough to see shapes, few enough for a large model on a CPU
BATCHES = 2  # the second is the first that an update can have spoilt


@dataclass(frozen=True)
class Trial:
    """The first images of a stream, and a batch of source images for the methods that need them."""

    stream: Stream
    source: ImageSet | None
    num_classes: int
    batch_size: int
    device: torch.device
    amp: str | None = None

    def run(self, method: Method) -> int:
        """Prepare and adapt as a cell would; how many images went through, or a UserError that says what is wrong."""
        scores = Scores(self.stream.images.labels, self.num_classes)
        plan = list(self.stream.batches(min(BATCH, self.batch_size)))[:BATCHES]
        with autocast(self.device, self.amp):
            if method.needs_source and self.source is not None:
                source = self._read(self.source, [np.arange(min(BATCH, len(self.source.ids)))])
                _told("prepare", lambda: method.prepare(source))
            for indices, batch in zip(plan, self._read(self.stream.images, plan), strict=True):
                logits = _told("adapt", lambda batch=batch: method.adapt(batch))  # type: ignore[misc]
                try:
                    scores.add(indices, logits)
                except CellFailed as error:
                    raise UserError(str(error)) from error
        return scores.images

    def _read(self, images: ImageSet, plan: Sequence[NDArray[np.int64]]) -> list[Tensor]:
        with closing(loading.batches(images, plan, self.device)) as batches:
            return [batch.clone() for batch in batches]


def _told(step: str, do: Callable[[], T]) -> T:
    try:
        return do()
    except (Exception, SystemExit) as error:  # a stranger's method may raise anything
        line = " ".join(str(error).split()) or "no message"
        raise UserError(f"{step} raised {type(error).__name__}: {line}") from error
