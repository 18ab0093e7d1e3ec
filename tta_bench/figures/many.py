"""Lines of rows in one figure. Too many for a legend are named at the ends of their lines, and most lines are thin."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from tta_bench.figures import style

MOST_IN_LEGEND = 9
FAINT: dict[str, Any] = {"color": "#999999", "linewidth": 0.7, "zorder": 1.5}


class Line(NamedTuple):
    """One row; NaN where it has no number."""

    label: str
    number: int  # of the row; sets its colour, marker and line
    values: Sequence[float]


def is_many(lines: Sequence[object]) -> bool:
    """Whether a legend would be larger than the figure."""
    return len(lines) > MOST_IN_LEGEND


def looks(lines: Sequence[Line], best: Callable[[Iterable[float]], float] = max) -> list[dict[str, Any]]:
    """How to draw rows: of many, the first, the best at each value and those that move most stand out."""
    if not is_many(lines):
        return [style.look(line.number)._asdict() for line in lines]
    tops = [best(column) for column in zip(*(line.values for line in lines), strict=True)]

    def weight(line: Line) -> tuple[bool, bool, float]:
        values = [value for value in line.values if not math.isnan(value)] or [0.0]
        leads = any(value == top for value, top in zip(line.values, tops, strict=True))
        return line.number == lines[0].number, leads, max(values) - min(values)

    chosen = sorted(lines, key=weight, reverse=True)[: len(style.COLOURS)]
    full = [line.label for line in lines if line in chosen]
    return [style.look(full.index(line.label))._asdict() if line.label in full else FAINT for line in lines]


def name(axes: style.Axes, x: float, lines: Sequence[Line], drawn: Sequence[dict[str, Any]]) -> None:
    """Say which line is which: in a legend, or right of the lines, which end at x. Call it last."""
    if is_many(lines):
        ends = [(line.label, line.values[-1], look["color"]) for line, look in zip(lines, drawn, strict=True)]
        _label_ends(axes, x, [end for end in ends if not math.isnan(end[1])])
    else:
        axes.figure.legend(loc="outside upper center", ncols=3)


def _label_ends(axes: style.Axes, x: float, ends: Sequence[tuple[str, float, str]]) -> None:
    """Write names, with their heights and colours, right of lines that end at x: apart, and joined to their lines."""
    from matplotlib.transforms import offset_copy

    figure: Any = axes.figure
    figure.canvas.draw()  # fixes the layout, so that the height of a line of text is known
    low, high = axes.get_ylim()
    gap = 1.15 * style.POINTS / 72 * figure.dpi / axes.get_window_extent().height * (high - low)
    places = apart([y for _, y, _ in ends], gap, low, high)
    beside = offset_copy(axes.transData, fig=figure, x=28, units="points")
    for (name, y, colour), place in zip(ends, places, strict=True):
        axes.annotate(
            name,
            (x, y),
            (x, place),
            textcoords=beside,
            va="center_baseline",
            color="#555555" if colour == FAINT["color"] else colour,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.5,
                "shrinkA": 1,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
        )


def apart(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near these values that are at least `gap` apart, in the same order and, if there is room, in bounds."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    blocks: list[list[float]] = []  # of neighbours that touch, without their gaps
    for rank, i in enumerate(order):
        blocks.append([values[i] - rank * gap])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    highest = max(low, high - (len(values) - 1) * gap)
    free = [min(max(fmean(block), low), highest) for block in blocks for _ in block]
    found = dict(zip(order, (place + rank * gap for rank, place in enumerate(free)), strict=True))
    return [found[i] for i in range(len(values))]
