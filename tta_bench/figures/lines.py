"""`speed`, and `sweep` over conditions: average accuracy of all rows against speed, batch size, length or severity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tta_bench.errors import UserError, require_known
from tta_bench.figures import many, style
from tta_bench.records.store import Store
from tta_bench.report import sweep
from tta_bench.report.choose import Filter
from tta_bench.report.tables import is_live


@dataclass(frozen=True)
class ChartLine:
    """One row at each value of the axis; NaN where it has no number."""

    label: str
    number: int  # of the row, which decides its looks
    accuracy: tuple[float, ...]
    spread: tuple[float, ...]  # standard deviation over seeds
    seen: tuple[float, ...]  # share of batches in percent


@dataclass(frozen=True)
class Chart:
    """Rows against one axis."""

    axis: str
    ticks: tuple[str, ...]
    lines: tuple[ChartLine, ...]
    is_live: bool
    notes: tuple[str, ...]


def data(folder: Path, axis: str, methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Chart:
    """All rows of a folder, or these, at every value of an axis."""
    records = Store.open(folder).records()
    try:
        found = sweep.points(records, axis, where)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    known = sweep.labels(found)
    require_known(methods, known, f"{folder}: no row")
    lines = []
    for number, label in enumerate(known):
        scores = [point.average(label) for point in found]
        seen = [point.seen(label).mean for point in found]
        spread = tuple(score.std or 0.0 for score in scores)
        lines.append(ChartLine(label, number, tuple(score.mean for score in scores), spread, tuple(seen)))
    kept = [line for line in lines if not methods or line.label in methods]
    notes = tuple(f"Incomplete: {line.label}" for line in kept if any(map(math.isnan, line.accuracy)))
    if all(math.isnan(value) for line in kept for value in line.accuracy):
        raise UserError(f"{folder}: none of these rows is done at any value: run the same command again")
    live = axis == "stream_speed" and any(is_live(point.found) for point in found)
    return Chart(sweep.TITLES[axis], tuple(point.name for point in found), tuple(kept), live, notes)


def at_speeds(folder: Path, methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Chart:
    """The rows of a folder at every stream speed."""
    return data(folder, "stream_speed", methods, where)


def draw(found: Chart) -> style.Figure:
    lines = [many.Line(line.label, line.number, line.accuracy) for line in found.lines]
    is_many = many.is_many(lines)
    width, height = (style.TEXT, 5.2) if is_many else (style.COLUMN, 3.6)
    figure = style.new_figure(width, height if found.is_live else 0.72 * height)
    ratios = (3 if is_many else 2, 1)[: 1 + found.is_live]
    parts = figure.subplots(len(ratios), sharex=True, squeeze=False, height_ratios=ratios)
    top: style.Axes = parts[0, 0]
    looks = many.looks(lines)
    for line, look in zip(found.lines, looks, strict=True):
        spread = line.spread if any(line.spread) and look is not many.FAINT else None
        top.errorbar(range(len(found.ticks)), line.accuracy, yerr=spread, **look, capsize=2, label=line.label)
        if found.is_live:
            parts[1, 0].plot(range(len(found.ticks)), line.seen, **look)
    shown = [value for line in found.lines for value in line.accuracy if not math.isnan(value)]
    top.set(ylabel="average accuracy (%)", ylim=style.room(shown), xlim=(-0.3, len(found.ticks) - 0.7))
    last: style.Axes = parts[-1, 0]
    if found.is_live:
        last.set(ylabel="batches seen (%)", ylim=(0, 105))
    last.set_xticks(range(len(found.ticks)), found.ticks)
    last.set_xlabel(found.axis)
    many.name(top, len(found.ticks) - 1, lines, looks)
    return figure
