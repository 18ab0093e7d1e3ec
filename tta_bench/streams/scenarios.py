"""Scenarios: how tasks become streams. Each is a pure function of the tasks, the suite's name and the seed.

| scenario | a stream is |
|---|---|
| normal | one task, shuffled; every task starts from the source weights (the DPAL paper) |
| single | the same, one image at a time |
| label-shift | one task, class after class: a step's class is drawn `imbalance` times as often as each other |
| gradual | one task, its severity rising from 1 to 5 and falling again |
| continual | all tasks one after the other, never reset |
| mixed | all tasks shuffled together |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.images import ImageSet, Joined
from tta_bench.data.seeding import permutation, seed_of
from tta_bench.datasets import Dataset
from tta_bench.streams.stream import Stream, digest
from tta_bench.suites.suite import Scenario

OpenTask = Callable[[str, int | None], ImageSet]  # a task's images at a severity; None: the suite's own

OVER_ALL_TASKS = ("continual", "mixed")

SEVERITIES = (1, 2, 3, 4, 5, 4, 3, 2, 1)
IMBALANCE = 500_000  # the SAR authors' default: all but one class at a time
DRAWS_PER_CLASS = 100


@dataclass(frozen=True)
class Part:
    """Images that are scored under one name; in a gradual stream one per severity."""

    task: str
    images: ImageSet


def groups(scenario: Scenario, tasks: Sequence[str], open_task: OpenTask) -> Iterator[list[Part]]:
    """The parts of each stream, opened when its turn comes."""
    if scenario == "gradual":
        for task in tasks:
            yield [Part(task, open_task(task, severity)) for severity in SEVERITIES]
    elif scenario in OVER_ALL_TASKS:
        yield [Part(task, open_task(task, None)) for task in tasks]
    else:
        for task in tasks:
            yield [Part(task, open_task(task, None))]


def levels(scenario: Scenario, tasks: Sequence[str], dataset: Dataset) -> Iterator[tuple[str, Dataset, str]]:
    """All data that the scenario reads: a name to tell it by, the dataset at its severity, and the task."""
    if scenario == "gradual":
        for severity in sorted(set(SEVERITIES)):
            level = dataset.at_severity(severity)
            yield from ((f"{task} at severity {severity}", level, task) for task in tasks)
    else:
        yield from ((task, dataset, task) for task in tasks)


def make_stream(
    scenario: Scenario,
    suite: str,
    seed: int,
    parts: Sequence[Part],
    limit: int | None = None,
    *,
    imbalance: float = IMBALANCE,
) -> Stream:
    """The stream of these parts; `images` are those of all parts, joined. Only label-shift knows an imbalance."""
    named = scenario if scenario != "label-shift" else spelled(scenario, imbalance)
    names = ("stream", suite, *dict.fromkeys(part.task for part in parts), named, seed)
    images = parts[0].images if len(parts) == 1 else Joined([(part.task, part.images) for part in parts])
    if scenario == "label-shift":
        order = _class_after_class(images.labels, imbalance, names)
    elif scenario in ("continual", "gradual"):
        order = _one_after_the_other([len(part.images.ids) for part in parts], names, scenario == "gradual")
    else:
        order = permutation(len(images.ids), *names)
    tasks = tuple(part.task for part in parts)
    whole = Stream(tasks, images, order, "")
    if limit is not None:
        order = order[_first_of_each(whole, limit, spread=scenario == "gradual")]
    kept = digest([images.ids[i] for i in order])
    return Stream(tasks, images, order, kept, is_part=len(order) < len(whole.order))


def _first_of_each(stream: Stream, limit: int, *, spread: bool) -> NDArray[np.int64]:
    """Places in a stream of the first `limit` images of each task, so that a short trial reaches every task.

    With `spread` they are taken from the whole length of the stream: a gradual one would else never get harder.
    """
    task = stream.task_of(stream.order)
    kept = []
    for name in dict.fromkeys(stream.tasks):
        places = np.flatnonzero(task == name)
        even = np.linspace(0, len(places) - 1, min(limit, len(places))).round().astype(np.int64)
        kept.append(places[even] if spread else places[:limit])
    return np.sort(np.concatenate(kept))


def spelled(scenario: Scenario, imbalance: float = IMBALANCE) -> str:
    """The scenario as a command line spells it, with an imbalance that is not the usual one.

    It names streams and cells: tables never mix two ratios, and the usual one has the name that it always had.
    """
    if imbalance == IMBALANCE:
        return scenario
    ratio = int(imbalance) if imbalance == int(imbalance) else imbalance
    return f"{scenario} --imbalance {ratio}"


def _one_after_the_other(sizes: Sequence[int], names: tuple[object, ...], share: bool) -> NDArray[np.int64]:
    """Each part shuffled, one after the other; with `share` each image is seen in one of the parts only."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    orders = [permutation(size, *names, i) for i, size in enumerate(sizes)]
    if share:
        common = permutation(sizes[0], *names)
        orders = [common[i :: len(sizes)] for i in range(len(sizes))]
    return np.concatenate([start + order for start, order in zip(starts, orders, strict=True)]).astype(np.int64)


def _class_after_class(labels: NDArray[np.int64], imbalance: float, names: tuple[object, ...]) -> NDArray[np.int64]:
    """Draws with replacement: one step per class, in which that class outweighs each other by the imbalance."""
    rng = np.random.Generator(np.random.PCG64(seed_of(*names)))
    classes, counts = np.unique(labels, return_counts=True)
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
    order = []
    for step in permutation(len(classes), *names):
        weights = np.ones(len(classes))
        weights[step] = imbalance
        drawn = rng.choice(len(classes), DRAWS_PER_CLASS, p=weights / weights.sum())
        order += [members[c][rng.integers(len(members[c]))] for c in drawn]
    return np.array(order, dtype=np.int64)
