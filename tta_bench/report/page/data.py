"""The numbers behind the page that the tables do not have: intervals and running accuracy, from predictions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.records.cell import Cell
from tta_bench.records.record import Record
from tta_bench.report.column import Column, Context, entries
from tta_bench.report.columns import columns_at
from tta_bench.report.costs import TIMES, contradictions
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.runs import Outline
from tta_bench.report.stats import dense
from tta_bench.report.values import Table, Value

POINTS = 100  # of a curve
Z = statistics.NormalDist().inv_cdf(0.975)

Interval = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One row of the page."""

    row: Row
    scores: tuple[Value, ...]  # in percent: the tasks in order, then their average
    intervals: tuple[Interval | None, ...]  # beside them
    more: dict[str, Value]  # what the accuracy table has beside them: when it is scored, passes, source images
    costs: dict[str, Value]  # by the columns' titles
    streams: dict[str, str]  # which stream a task was scored in
    curves: dict[str, list[dict[str, Any]]]  # of each stream: seed, images, resets and running accuracy

    @property
    def means(self) -> list[float]:
        return [value.mean if value.is_number else math.nan for value in self.scores]


def cost_columns(comparison: Comparison) -> list[Column]:
    """What pages show beside accuracies, each once: first what does not depend on the machine."""
    places = columns_at("cost"), columns_at("page", comparison), columns_at("board", comparison)
    return list({column.key: column for columns in places for column in columns}.values())


def gather(comparison: Comparison, accuracy: Table, predictions: Callable[[Cell], Outline]) -> tuple[Line, ...]:
    """Lines in the order of the comparison; each finished cell's predictions are read once."""
    lines = []
    columns, context = cost_columns(comparison), Context(comparison)
    average = accuracy.columns.index("Avg.")
    for i, row in enumerate(comparison.rows):
        values = accuracy.rows[i][1]
        scores = (*values[: len(comparison.tasks)], values[average])
        costs = zip(columns, entries(columns, row, context), strict=True)
        curves, intervals = _from_predictions(row, comparison.tasks, scores, predictions)
        lines.append(
            Line(
                row=row,
                scores=scores,
                intervals=intervals,
                more=dict(zip(accuracy.columns[average + 1 :], values[average + 1 :], strict=True)),
                costs={column.title: value for column, value in costs if value.is_number},
                streams={task: _stream(record.cell) for record in row.records for task in record.cell.spec.tasks},
                curves=curves,
            )
        )
    return tuple(lines)


def payload(tasks: Sequence[str], lines: Sequence[Line]) -> dict[str, Any]:
    """What the charts draw. Texts are those of the tables: JavaScript would round an exact half the other way.

    A time that contradicts the counts of passes is not drawn: it would show a method as cheaper than Source.
    """
    rows = [line.row for line in lines]
    wrong = contradictions(rows)
    shared = any(record.time_conditions.shared for row in rows for record in row.done)
    return {
        "tasks": list(tasks),
        "methods": [
            {
                "label": line.row.label,
                "source": line.row.is_source,
                "scores": [None if math.isnan(value) else round(value, 4) for value in line.means],
                "texts": [value.figure for value in line.scores],
                "intervals": [interval and [round(bound, 2) for bound in interval] for interval in line.intervals],
                "spans": [interval and "{:.1f} to {:.1f}".format(*interval) for interval in line.intervals],
                "costs": _axes(line, has_time=line.row.label not in wrong, shared=shared),
                "streams": line.streams,
                "curves": line.curves,
            }
            for line in lines
        ],
    }


def _axes(line: Line, *, has_time: bool, shared: bool) -> dict[str, float]:
    """What accuracy is drawn against: all costs; passes in both directions together."""
    found: dict[str, float] = {}
    for column in {column.key: column for column in (*columns_at("cost"), *columns_at("page"))}.values():
        if column.title in line.costs and column.only is None and (has_time or column.key not in TIMES):
            name = "passes/image" if column.key in ("forwards_per_image", "backwards_per_image") else column.title
            name += " (shared with other jobs)" * (shared and column.key in TIMES)
            found[name] = round(found.get(name, 0) + line.costs[column.title].mean, 4)
    return found


def _from_predictions(
    row: Row, tasks: Sequence[str], scores: Sequence[Value], predictions: Callable[[Cell], Outline]
) -> tuple[dict[str, list[dict[str, Any]]], tuple[Interval | None, ...]]:
    curves: dict[str, list[dict[str, Any]]] = {}
    seen: dict[str, list[Outline]] = {}
    for record in row.records:
        if record.status == "done" and record.scores.samples:
            outline, stream = predictions(record.cell), _stream(record.cell)
            curves.setdefault(stream, []).append(_curve(record, outline.correct))
            seen.setdefault(stream, []).append(outline)
    # A stream over several tasks gives an interval of the average only: its images are one sequence.
    errors = {stream: Errors.of(parts) for stream, parts in seen.items()}
    known = [[errors[task]] if task in errors else [] for task in tasks] + [list(errors.values())]
    return curves, tuple(interval(score, those) for score, those in zip(scores, known, strict=True))


def _stream(cell: Cell) -> str:
    """The task, or a name for a stream over several tasks that differs between suites."""
    return cell.spec.tasks[0] if len(set(cell.spec.tasks)) == 1 else f"{cell.spec.suite} {cell.conditions.scenario}"


def _curve(record: Record, correct: NDArray[np.bool_]) -> dict[str, Any]:
    """Running accuracy in hundredths of a percent, after (i + 1) / k of the images for each of the k points."""
    n = len(correct)
    end = record.scores.top1 if n == record.scores.samples else correct.mean()  # clean images are left out
    starts, ends = _cuts(n)
    running = np.cumsum(np.add.reduceat(correct, starts, dtype=np.int32)) / ends
    return {
        "seed": record.cell.spec.seed,
        "images": n,
        "resets": record.measured.resets,
        "running": np.rint(10_000 * running).astype(int).tolist(),
        "end": f"{100 * end:.1f}",
    }


@cache
def _cuts(images: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the parts of a stream between the points of its curve start and end."""
    points = min(images, POINTS)
    ends = np.arange(1, points + 1) * images // max(points, 1)
    return np.concatenate([[0], ends[:-1]]), ends


@dataclass(frozen=True)
class Errors:
    """How much each image of a stream adds to the error of its accuracy, the mean over seeds."""

    deviations: NDArray[np.float64]
    images: int
    seeds: int

    @classmethod
    def of(cls, parts: Sequence[Outline]) -> Errors:
        indices, size = dense([part.index for part in parts])
        deviations = np.zeros(size)
        for index, correct in zip(indices, (part.correct for part in parts), strict=True):
            deviations += np.bincount(index, (correct - correct.mean()) / (len(parts) * len(correct)), size)
        return cls(deviations, max(len(part.correct) for part in parts), len(parts))


def interval(score: Value, streams: Sequence[Errors]) -> Interval | None:
    """95 % for the mean over streams: how far other images or other orders would move it.

    An image counts once, however many seeds and tasks show it (ImageNet-C has the same 50,000 in all of them): its
    deviations are added up before they are squared. The spread over seeds comes on top, divided by their number.
    The interval is Wilson's, for as many independent images as would vary as much, so it is not empty at 100 %.
    """
    if not (score.is_number and streams):
        return None
    p = score.mean / 100
    deviations = np.zeros(max(len(stream.deviations) for stream in streams))
    for stream in streams:
        deviations[: len(stream.deviations)] += stream.deviations / len(streams)
    spread = (score.std or 0) / 100
    variance = float(np.sum(deviations**2)) + spread**2 / max(stream.seeds for stream in streams)
    n = p * (1 - p) / variance if variance > 0 and 0 < p < 1 else max(stream.images for stream in streams)
    center = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    return max(0.0, 100 * (center - half)), min(100.0, 100 * (center + half))
