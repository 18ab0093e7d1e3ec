"""Streams: images in one fixed order, the same for every method."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.images import ImageSet, Joined


@dataclass(frozen=True)
class Stream:
    """Which image comes when. The digest names the order, so that two rows can be seen to match."""

    tasks: tuple[str, ...]  # of the parts that `images` joins
    images: ImageSet
    order: NDArray[np.int64]
    digest: str
    is_part: bool = False  # cut short by a limit

    def batches(self, batch_size: int) -> Iterator[NDArray[np.int64]]:
        """Positions in the image set, batch by batch; the last batch may be short."""
        for start in range(0, len(self.order), batch_size):
            yield self.order[start : start + batch_size]

    def task_of(self, positions: NDArray[np.int64]) -> NDArray[np.str_]:
        """The task that each position belongs to."""
        ends = self.images.ends if isinstance(self.images, Joined) else [len(self.images.ids)]
        return np.asarray(self.tasks)[np.searchsorted(ends, positions, side="right")]


def digest(ids: Sequence[str]) -> str:
    """A name for ids in this order."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
