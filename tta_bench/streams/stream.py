"""Streams: images in one fixed order, the same for every method."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.images import ImageSet, Joined
from tta_bench.errors import UserError
from tta_bench.streams.scenarios import PLAIN, Plan, Running, Scenario


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
    borders: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))  # where tasks start
    running: Running = PLAIN

    def batches(self, batch_size: int) -> Iterator[NDArray[np.int64]]:
        """Positions in the image set, batch by batch; the last batch may be short, of each task if it cuts there."""
        segments = np.split(self.order, self.borders[1:]) if self.running.cuts else [self.order]
        for segment in segments:
            for start in range(0, len(segment), batch_size):
                yield segment[start : start + batch_size]

    def resets(self, batch_size: int) -> list[int]:
        """The batches before which the method is reset at a task; with batches across borders, the next ones."""
        if not self.running.resets_at_tasks:
            return []
        sizes = [len(batch) for batch in self.batches(batch_size)]
        return sorted({int(i) for i in np.searchsorted(np.cumsum([0, *sizes[:-1]]), self.borders[1:])} - {len(sizes)})

    def probes(self, batch_size: int) -> list[int]:
        """The batches that the method only predicts, because they are a probe."""
        if not self.running.probe:
            return []
        firsts = np.array([batch[0] for batch in self.batches(batch_size)])
        return [int(i) for i in np.flatnonzero(self.task_of(firsts) == self.running.probe)]

    def task_of(self, positions: NDArray[np.int64]) -> NDArray[np.str_]:
        """The task that each position belongs to."""
        ends = self.images.ends if isinstance(self.images, Joined) else [len(self.images.ids)]
        return np.asarray(self.tasks)[np.searchsorted(ends, positions, side="right")]


def make_stream(scenario: Scenario, suite: str, seed: int, parts: Sequence[Part], limit: int | None = None) -> Stream:
    """The stream of these parts. Its order depends on suite, tasks, scenario and seed only."""
    tasks = tuple(part.task for part in parts)
    names = ("stream", suite, *scenario.tasks_of(tuple(dict.fromkeys(tasks))), scenario.stream_name, seed)
    images = parts[0].images if len(parts) == 1 else Joined([(part.task, part.images) for part in parts])
    places = [part.places for part in parts if part.places is not None]
    if places:
        plan = Plan(np.argsort(np.concatenate(places)))
    else:
        plan = scenario.plan(tasks, [len(part.images.ids) for part in parts], images.labels, names)
    order = plan.order
    borders = np.zeros(1, np.int64) if plan.borders is None else plan.borders
    whole = Stream(tasks, images, order, "")
    if limit is not None:
        kept = _first_of_each(whole, limit, plan.laps, spread=scenario.spreads_limit, probe=scenario.running.probe)
        order, borders = order[kept], np.unique(np.searchsorted(kept, borders))
        if (images.labels[order] < 0).all():
            raise UserError(f"--limit {limit} leaves only images of unknown classes: use a larger one")
    known, running = digest([images.ids[i] for i in order]), scenario.running
    if running.freeze_after is not None and running.freeze_after >= len(order):
        raise UserError(f"freeze:{running.freeze_after} needs a longer stream: this one has {len(order):,} images")
    return Stream(tasks, images, order, known, len(order) < len(whole.order), borders, running)


def _first_of_each(
    stream: Stream, limit: int, laps: NDArray[np.int64] | None, *, spread: bool, probe: str
) -> NDArray[np.int64]:
    """Positions of the first `limit` images of each task in each lap, so that a short run covers every task.

    With `spread` they are spaced evenly over the whole stream. A probe is kept whole.
    """
    task = stream.task_of(stream.order)
    lap = np.zeros(len(task)) if laps is None else np.searchsorted(laps, np.arange(len(task)), side="right")
    kept = []
    for name, number in ((name, number) for name in dict.fromkeys(stream.tasks) for number in np.unique(lap)):
        places = np.flatnonzero((task == name) & (lap == number))
        even = np.linspace(0, len(places) - 1, min(limit, len(places))).round().astype(np.int64)
        kept.append(places if name == probe else places[even] if spread else places[:limit])
    return np.sort(np.concatenate(kept))


def digest(ids: Sequence[str]) -> str:
    """A digest of ids in this order."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
