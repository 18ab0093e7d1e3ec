"""Streams: images in one fixed order, the same for every method."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.images import ImageSet, Joined
from tta_bench.streams.scenarios import Scenario


@dataclass(frozen=True)
class Part:
    """Images scored under one name; a gradual stream has one part per severity."""

    task: str
    images: ImageSet
    places: NDArray[np.int64] | None = None  # of its images in the stream, if they were made for it


@dataclass(frozen=True)
class Stream:
    """Images in a fixed order. The digest identifies the order, so that tables can check that rows match."""

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


def make_stream(scenario: Scenario, suite: str, seed: int, parts: Sequence[Part], limit: int | None = None) -> Stream:
    """The stream of these parts. Its order depends on suite, tasks, scenario and seed only."""
    tasks = tuple(part.task for part in parts)
    names = ("stream", suite, *dict.fromkeys(tasks), scenario.stream_name, seed)
    images = parts[0].images if len(parts) == 1 else Joined([(part.task, part.images) for part in parts])
    places = [part.places for part in parts if part.places is not None]
    if places:
        order = np.argsort(np.concatenate(places))
    else:
        order = scenario.order([len(part.images.ids) for part in parts], images.labels, names)
    whole = Stream(tasks, images, order, "")
    if limit is not None:
        order = order[_first_of_each(whole, limit, spread=scenario.spreads_limit)]
    kept = digest([images.ids[i] for i in order])
    return Stream(tasks, images, order, kept, is_part=len(order) < len(whole.order))


def _first_of_each(stream: Stream, limit: int, *, spread: bool) -> NDArray[np.int64]:
    """Positions of the first `limit` images of each task, so that a short run covers every task.

    With `spread` they are spaced evenly over the whole stream.
    """
    task = stream.task_of(stream.order)
    kept = []
    for name in dict.fromkeys(stream.tasks):
        places = np.flatnonzero(task == name)
        even = np.linspace(0, len(places) - 1, min(limit, len(places))).round().astype(np.int64)
        kept.append(places[even] if spread else places[:limit])
    return np.sort(np.concatenate(kept))


def digest(ids: Sequence[str]) -> str:
    """A digest of ids in this order."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
