"""Which images two rows answer differently, with what each said: from stored predictions alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError, did_you_mean
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.report.costs import paired
from tta_bench.report.differences import two_rows
from tta_bench.report.rows import Comparison
from tta_bench.report.runs import Runs


@dataclass(frozen=True)
class Pair:
    """Two rows on one task of one stream; `places` are the task's images in the stream."""

    a: str
    b: str
    record: Record  # of row a
    task: str
    first: Predictions
    second: Predictions
    places: NDArray[np.int64]

    @property
    def batch_size(self) -> int:
        return self.record.cell.spec.batch_size


@dataclass(frozen=True)
class Group:
    """Images of one kind, the most telling first."""

    name: str
    about: str
    places: NDArray[np.int64]  # in the stream


@dataclass(frozen=True)
class ClassLine:
    """How two rows do on one class."""

    label: int
    images: int
    a_right: int
    b_right: int
    to_right: int
    to_wrong: int


def pair(comparison: Comparison, runs: Runs, a: str, b: str, task: str, seed: int | None) -> Pair:
    """The two rows on a task, for one seed; the lowest that both have, by default."""
    one, other = two_rows(comparison, a, b)
    if task not in comparison.tasks:
        raise UserError(f"no task '{task}' in {comparison.suite}{did_you_mean(task, comparison.tasks)}")
    both = [found for found in paired(one.done, other.done) if task in found[0].cell.spec.tasks]
    seeds = sorted({found[0].cell.spec.seed for found in both})
    if not both or (seed is not None and seed not in seeds):
        known = f" (both have: {', '.join(map(str, seeds))})" if seeds else ""
        which = "" if seed is None else f" with seed {seed}"
        raise UserError(f"{one.label} and {other.label} have not both finished {task}{which}{known}")
    first, second = next(found for found in both if found[0].cell.spec.seed == (seeds[0] if seed is None else seed))
    answers = runs.predictions(first.cell), runs.predictions(second.cell)
    number = list(dict.fromkeys(first.cell.spec.tasks)).index(task)
    return Pair(one.label, other.label, first, task, *answers, np.flatnonzero(answers[0].task == number))


def groups(found: Pair) -> list[Group]:
    """The images that only one row gets right, and the surest mistakes of the second, surest first."""
    a, b, here = found.first, found.second, found.places
    right_a, right_b = a.correct[here], b.correct[here]

    def of(mask: NDArray[np.bool_], sure: NDArray[np.float32]) -> NDArray[np.int64]:
        kept = here[mask]
        return kept[np.argsort(-sure[kept], kind="stable")]

    return [
        Group("Flipped to right", f"{found.a} is wrong, {found.b} is right.", of(~right_a & right_b, b.confidence)),
        Group("Flipped to wrong", f"{found.a} is right, {found.b} is wrong.", of(right_a & ~right_b, b.confidence)),
        Group("Most confident mistakes", f"{found.b} is wrong and sure of it.", of(~right_b, b.confidence)),
    ]


def classes(found: Pair) -> list[ClassLine]:
    """Both rows class by class, those that changed most first."""
    label = found.first.label[found.places]
    a, b = found.first.correct[found.places], found.second.correct[found.places]
    size = int(label.max()) + 1
    counts = [np.bincount(label[mask], minlength=size) for mask in (a | ~a, a, b, ~a & b, a & ~b)]
    lines = [ClassLine(number, *(int(count[number]) for count in counts)) for number in range(size)]
    shown = [line for line in lines if line.images]
    return sorted(shown, key=lambda line: (-abs(line.b_right - line.a_right), line.label))
