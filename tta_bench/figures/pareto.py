"""`pareto`: accuracy against cost, and the line of methods that none beats in both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal

from tta_bench.errors import UserError
from tta_bench.figures import rows, style
from tta_bench.report.choose import Filter
from tta_bench.report.costs import MIXED, images_of, machines_of, paired, times_other
from tta_bench.report.rows import Comparison, Row

Cost = Literal["passes", "time"]
LABELS = {
    "passes": "forward + backward passes per image",
    "time": "time in adapt, × Source",
}


@dataclass(frozen=True)
class CostPoint:
    label: str
    number: int  # of the row; sets its colour and marker
    cost: float
    accuracy: float  # mean over tasks and seeds, in percent
    spread: float  # standard deviation over seeds


@dataclass(frozen=True)
class Pareto:
    points: tuple[CostPoint, ...]
    cost: Cost
    caution: str
    notes: tuple[str, ...]

    @property
    def frontier(self) -> list[CostPoint]:
        """Points for which no other is both as cheap and more accurate; cheapest first."""
        best: list[CostPoint] = []
        for point in sorted(self.points, key=lambda p: (p.cost, -p.accuracy)):
            if not best or point.accuracy > best[-1].accuracy:
                best.append(point)
        return best


def data(folder: Path, cost: Cost = "passes", methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Pareto:
    """One point per row, over the tasks that all rows have done."""
    found = rows.read(folder, methods, where)
    found, less = rows.on_common_tasks(found)
    price, points, notes = _passes, [], [*map(str, found.notes), *less]
    if cost == "time":
        source = _source(rows.read(folder, where=where))
        price = partial(_times, source)
        machines = machines_of(replace(found, rows=(source, *found.rows)))
        notes += (
            [f"{MIXED}: {' and '.join(machines)}; --cost passes does not depend on them"] if len(machines) > 1 else []
        )
    for number, row in enumerate(found.rows):
        score = rows.average(row, found.tasks)
        if math.isnan(score.mean):
            notes.append(f"Left out: {row.label}, not all of its tasks are done")
            continue
        points.append(CostPoint(row.label, number, price(row), score.mean, score.std or 0.0))
    if not points:
        raise UserError(f"{folder}: no row has all its tasks done: run the same command again to finish them")
    return Pareto(tuple(points), cost, rows.caution(found), tuple(notes))


def _passes(row: Row) -> float:
    passes = sum(record.measured.sample_forwards + record.measured.sample_backwards for record in row.records)
    return passes / sum(map(images_of, row.records))


def _source(found: Comparison) -> Row:
    """The unadapted model: the first such row, because an axis has one unit."""
    source = next((row for row in found.rows if row.first.cell.spec.method == "source"), None)
    if source is None:
        raise UserError("--cost time is in multiples of 'source', and this run has no such row: use --cost passes")
    return source


def _times(source: Row, row: Row) -> float:
    """Steady time per image as a multiple of Source's, on the same streams."""
    times = times_other(paired(row.done, source.done))
    if times is None:
        raise UserError(f"--cost time: 'source' and '{row.label}' have no stream in common: use --cost passes")
    return times


def draw(found: Pareto) -> style.Figure:
    figure = style.new_figure(style.COLUMN, 2.5)
    axes = figure.subplots()
    frontier = found.frontier
    steps = [(p.cost, p.accuracy) for p in frontier]
    corners = [steps[0], *(c for (_, y), (x, high) in pairwise(steps) for c in ((x, y), (x, high)))]
    axes.plot(*zip(*corners, strict=True), color="#888888", linewidth=0.8, zorder=1)
    for point in found.points:
        look = style.look(point.number)
        axes.errorbar(
            point.cost,
            point.accuracy,
            yerr=point.spread or None,
            color=look.color,
            marker=look.marker,
            markersize=6,
            capsize=2,
            linestyle="none",
            markerfacecolor=look.color if point in frontier else "white",
        )
    axes.margins(x=0.15)
    axes.set_ylim(style.room([p.accuracy + side * p.spread for p in found.points for side in (-1, 1)]))
    axes.set(xlabel=LABELS[found.cost], ylabel=f"average accuracy (%){found.caution}")
    style.label_points(axes, [(p.cost, p.accuracy, p.label) for p in found.points], corners)
    return figure
