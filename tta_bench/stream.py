"""Streams: a task in one fixed order, the same for every method."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tta_bench.seeding import permutation


@dataclass(frozen=True)
class Stream:
    """Which image comes when. The digest names the order, so that two rows can be seen to match."""

    task: str
    order: NDArray[np.int64]
    digest: str

    def batches(self, batch_size: int) -> Iterator[NDArray[np.int64]]:
        """Positions in the image set, batch by batch; the last batch may be short."""
        for start in range(0, len(self.order), batch_size):
            yield self.order[start : start + batch_size]


def make_stream(
    suite: str,
    task: str,
    seed: int,
    ids: Sequence[str],
    *,
    scenario: str = "normal",
    limit: int | None = None,
) -> Stream:
    """The order of a task: a pure function of suite, task, scenario and seed. No global generator is asked."""
    order = permutation(len(ids), "stream", suite, task, scenario, seed)[:limit]
    return Stream(task, order, digest([ids[i] for i in order]))


def digest(ids: Sequence[str]) -> str:
    """A name for ids in this order."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
