"""`speed`, and `sweep` over conditions: average accuracy of all rows against speed, batch size, length or severity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.errors import UserError, did_you_mean
from tta_bench.figures import style
from tta_bench.records.store import Store
from tta_bench.report import sweep
from tta_bench.report.choose import Filter
from tta_bench.report.tables import is_live

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Line:
    """One row at each value of the axis; NaN where it has no number."""

    label: str
    number: int  # of the row, which decides its looks
    accuracy: tuple[float, ...]
    spread: tuple[float, ...]  # standard deviation over seeds
    seen: tuple[float, ...]  # share of batches in percent


@dataclass(frozen=True)
class Over:
    """Rows against one axis."""

    axis: str
    ticks: tuple[str, ...]
    lines: tuple[Line, ...]
    is_live: bool
    notes: tuple[str, ...]


def data(folder: Path, axis: str, methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Over:
    """The rows of a folder at every value of an axis, all of them or those asked for."""
    try:
        found = sweep.points(Store.open(folder).records(), axis, where)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    known = sweep.labels(found)
    for name in methods:
        if name not in known:
            raise UserError(f"{folder}: no row '{name}'{did_you_mean(name, known)}")
    lines = []
    for number, label in enumerate(known):
        scores = [point.average(label) for point in found]
        seen = [point.seen(label).mean for point in found]
        spread = tuple(score.std or 0.0 for score in scores)
        lines.append(Line(label, number, tuple(score.mean for score in scores), spread, tuple(seen)))
    kept = [line for line in lines if not methods or line.label in methods]
    notes = tuple(
        f"Left out where it is not done: {line.label}" for line in kept if any(map(math.isnan, line.accuracy))
    )
    live = axis == "stream_speed" and any(is_live(point.found) for point in found)
    return Over(sweep.TITLES[axis], tuple(point.name for point in found), tuple(kept), live, notes)


def draw(found: Over) -> Figure:
    figure = style.new_figure(style.COLUMN, 3.6 if found.is_live else 2.6)
    parts = figure.subplots(
        2 if found.is_live else 1, sharex=True, squeeze=False, height_ratios=(2, 1)[: 1 + found.is_live]
    )
    top: Axes = parts[0, 0]
    for line in found.lines:
        look = style.look(line.number)._asdict()
        spread = line.spread if any(line.spread) else None
        top.errorbar(range(len(found.ticks)), line.accuracy, yerr=spread, **look, capsize=2, label=line.label)
        if found.is_live:
            parts[1, 0].plot(range(len(found.ticks)), line.seen, **look)
    shown = [value for line in found.lines for value in line.accuracy if not math.isnan(value)]
    top.set(ylabel="average accuracy (%)", ylim=style.room(shown), xlim=(-0.3, len(found.ticks) - 0.7))
    last: Axes = parts[-1, 0]
    if found.is_live:
        last.set(ylabel="batches seen (%)", ylim=(0, 105))
    last.set_xticks(range(len(found.ticks)), found.ticks)
    last.set_xlabel(found.axis)
    figure.legend(loc="outside upper center", ncols=3)
    return figure
