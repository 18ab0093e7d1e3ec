"""The numbers behind the page that the tables do not have: intervals and running accuracy, from predictions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.cell import Cell
from tta_bench.record import Predictions, Record
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.tables import Table, Value

POINTS = 100  # of a curve
COSTS = ("× Source", "ms/image", "forwards/image", "backwards/image", "peak MiB")
Z = statistics.NormalDist().inv_cdf(0.975)

Interval = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One row of the page."""

    row: Row
    scores: tuple[Value, ...]  # in percent: the tasks in order, then their average
    intervals: tuple[Interval | None, ...]  # beside them
    costs: dict[str, float]
    streams: dict[str, str]  # which stream a task was scored in
    curves: dict[str, list[dict[str, Any]]]  # of each stream: seed, images, resets and running accuracy

    @property
    def means(self) -> list[float]:
        return [math.nan if value.word else value.mean for value in self.scores]


def gather(
    comparison: Comparison, accuracy: Table, cost: Table, predictions: Callable[[Cell], Predictions]
) -> tuple[Line, ...]:
    """Lines in the order of the comparison; each finished cell's predictions are read once."""
    lines = []
    average = accuracy.columns.index("Avg.")
    for i, row in enumerate(comparison.rows):
        values = accuracy.rows[i][1]
        scores = (*values[: len(comparison.tasks)], values[average])
        costs = dict(zip(cost.columns, cost.rows[i][1], strict=True))
        curves, intervals = _from_predictions(row, comparison.tasks, scores, predictions)
        lines.append(
            Line(
                row=row,
                scores=scores,
                intervals=intervals,
                costs={name: costs[name].mean for name in COSTS if name in costs and costs[name].mean >= 0},
                streams={task: record.cell.name for record in row.records for task in record.cell.tasks},
                curves=curves,
            )
        )
    return tuple(lines)


def _from_predictions(
    row: Row, tasks: Sequence[str], scores: Sequence[Value], predictions: Callable[[Cell], Predictions]
) -> tuple[dict[str, list[dict[str, Any]]], tuple[Interval | None, ...]]:
    curves: dict[str, list[dict[str, Any]]] = {}
    errors: dict[str, Errors] = {}
    for record in row.records:
        if record.status == "done":
            seen = predictions(record.cell)
            curves.setdefault(record.cell.name, []).append(_curve(record, seen.correct))
            errors.setdefault(record.cell.name, Errors()).add(seen.index, seen.correct)
    # A stream over several tasks does not tell which image was of which: only the average has an interval then.
    intervals = [
        errors[task].interval(score) if task in errors and not score.word else None
        for task, score in zip(tasks, scores[:-1], strict=True)
    ]
    whole = Errors.joined(list(errors.values()))
    return curves, (*intervals, whole.interval(scores[-1]) if errors else None)


def _curve(record: Record, correct: NDArray[np.bool_]) -> dict[str, Any]:
    """Running accuracy in hundredths of a percent, after (i + 1) / k of the images for each of the k points."""
    n = len(correct)
    k = min(n, POINTS)
    ends = np.arange(1, k + 1) * n // max(k, 1)
    running = np.cumsum(correct)[ends - 1] / ends
    return {
        "seed": record.cell.seed,
        "images": n,
        "resets": record.resets,
        "running": np.rint(10_000 * running).astype(int).tolist(),
    }


class Errors:
    """How far accuracy would move with other images or another order.

    An image counts once, however many seeds and tasks show it (ImageNet-C has the same 50,000 in all of them), so its
    deviations are added up before they are squared. The spread over seeds comes on top, divided by their number.
    """

    def __init__(self) -> None:
        self.deviations: NDArray[np.float64] = np.zeros(0)
        self.shown: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self.parts = 0

    def add(self, index: NDArray[np.int64], correct: NDArray[np.bool_]) -> None:
        size = max(len(self.shown), int(index.max(initial=-1)) + 1)
        deviations = np.bincount(index, (correct - correct.mean()) / len(correct), size) if len(correct) else 0
        self.deviations = _longer(self.deviations, size) + deviations
        self.shown = _longer(self.shown, size)
        self.shown[index] = True
        self.parts += 1

    @classmethod
    def joined(cls, several: Sequence[Errors]) -> Errors:
        """Of the mean over tasks, each with the same weight."""
        whole = cls()
        size = max((len(one.shown) for one in several), default=0)
        whole.deviations, whole.shown = np.zeros(size), np.zeros(size, dtype=bool)
        for one in several:
            whole.deviations += _longer(one.deviations, size) / max(one.parts, 1)
            whole.shown |= _longer(one.shown, size)
        whole.parts = len(several)
        return whole

    def interval(self, score: Value) -> Interval | None:
        """95 % in percent: Wilson's, for as many independent images as would vary as much; never empty at 100 %."""
        images = int(self.shown.sum())
        if score.word or math.isnan(score.mean) or not images:
            return None
        p = score.mean / 100
        seeds = max(self.seeds, 1)
        variance = float(np.sum((self.deviations / self.parts) ** 2)) + ((score.std or 0) / 100) ** 2 / seeds
        n = p * (1 - p) / variance if variance > 0 and 0 < p < 1 else images
        center = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
        half = Z / (1 + Z**2 / n) * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        return max(0.0, 100 * (center - half)), min(100.0, 100 * (center + half))


def _longer(values: NDArray[Any], size: int) -> NDArray[Any]:
    return np.pad(values, (0, size - len(values))) if len(values) < size else values
