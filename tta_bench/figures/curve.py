"""`curve`: running accuracy over the stream, one panel per stream, with the method's own resets marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError, require_known
from tta_bench.figures import rows, style
from tta_bench.records.store import Store
from tta_bench.report.choose import Filter
from tta_bench.report.curves import batch_ends, running
from tta_bench.report.rows import Row

COLUMNS = 3
STRIP = 0.07  # of a panel's height for the resets of one method
NOISY = 0.1  # the first tenth of a stream, where few images are averaged, does not set the height of a panel


@dataclass(frozen=True)
class Curve:
    """One method on one stream."""

    label: str
    number: int  # of the row; sets its colour, marker and line
    images: NDArray[np.int64]  # seen at the end of each batch
    accuracy: NDArray[np.float64]  # so far, in percent; mean over seeds
    spread: NDArray[np.float64]  # standard deviation over seeds
    resets: tuple[int, ...]  # images seen when the method reset to the source weights, over all seeds


@dataclass(frozen=True)
class Panel:
    title: str
    lines: tuple[Curve, ...]


@dataclass(frozen=True)
class Curves:
    panels: tuple[Panel, ...]
    notes: tuple[str, ...]


def data(folder: Path, tasks: Sequence[str] = (), methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Curves:
    """The panels of a run's streams, in the order of its tasks, or of these."""
    found = rows.read(folder, methods, where)
    streams = dict.fromkeys(record.cell.name for row in found.rows for record in row.records)
    require_known(tasks, streams, f"{folder}: no stream")
    store = Store.open(folder)
    panels, notes = [], list(map(str, found.notes))
    for name in tasks or streams:
        lines = [line(row, number, name, store) for number, row in enumerate(found.rows)]
        done = tuple(line for line in lines if line is not None)
        panels += [Panel(name.replace("_", " "), done)] if done else []
        gone = [row.label for row, line in zip(found.rows, lines, strict=True) if line is None]
        notes += [f"Left out: {label}, not done on {name}" for label in gone]
    measured = [record.measured for row in found.rows for record in row.records]
    if any(one.resets and not one.reset_batches for one in measured):
        notes.append("Some records are from an older tta-bench that did not record resets: these have no marks")
    if not panels:
        raise UserError(f"{folder}: no method is done on any of these streams: run the same command again")
    return Curves(tuple(panels), tuple(notes))


def line(row: Row, number: int, stream: str, store: Store) -> Curve | None:
    """A row's curve on a stream; None if no seed is done."""
    done = [record for record in row.records if record.cell.name == stream and record.status == "done"]
    if not done:
        return None
    ends = batch_ends(done[0])
    curves = np.array([running(store.predictions(record), batch_ends(record)) for record in done])
    return Curve(
        label=row.label,
        number=number,
        images=ends,
        accuracy=curves.mean(0),
        spread=curves.std(0, ddof=1) if len(curves) > 1 else np.zeros(len(ends)),
        resets=tuple(sorted(int(ends[batch]) for record in done for batch in record.measured.reset_batches)),
    )


def draw(found: Curves) -> style.Figure:
    panels = found.panels
    columns = min(COLUMNS, len(panels))
    height = -(-len(panels) // columns)
    width = style.COLUMN if columns == 1 else style.PAGE
    figure = style.new_figure(width, 2.1 * height + 0.5)
    grid = figure.subplots(height, columns, squeeze=False, sharex=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, panel in zip(grid.flat, panels, strict=False):
        _panel(axes, panel)
    for axes in grid[:, 0]:
        axes.set_ylabel("running accuracy (%)")
    for column in range(columns):
        grid[(len(panels) - 1 - column) // columns, column].set_xlabel("images seen")
        grid[(len(panels) - 1 - column) // columns, column].xaxis.set_tick_params(labelbottom=True)
    handles = {h.get_label(): h for axes in grid.flat for h in axes.get_legend_handles_labels()[0]}
    most = 2 if columns == 1 else 6
    per_line = -(-len(handles) // -(-len(handles) // most))  # lines of even length
    figure.legend(handles=list(handles.values()), loc="outside upper center", ncols=per_line)
    return figure


def _panel(axes: style.Axes, panel: Panel) -> None:
    later = [line.accuracy[int(NOISY * len(line.accuracy)) :] for line in panel.lines]
    for line in panel.lines:
        look = style.look(line.number)
        steps = max(1, len(line.images) // 5)
        axes.plot(
            line.images,
            line.accuracy,
            **look._asdict(),
            markevery=(line.number * steps // len(panel.lines) % steps, steps),  # stagger the markers of rows
            linewidth=max(1.3, 2.1 - 0.25 * line.number),  # where rows overlap, earlier ones stay visible
            label=line.label,
        )
        if line.spread.any():
            edges = line.accuracy - line.spread, line.accuracy + line.spread
            axes.fill_between(line.images, *edges, color=look.color, alpha=0.15, linewidth=0)
    low, high = min(values.min() for values in later), max(values.max() for values in later)
    reset = [line for line in panel.lines if line.resets]
    strip = STRIP * len(reset)  # the share of the panel below the curves
    margin = max(1.0, 0.08 * (high - low))
    floor = low - margin - (high - low + 2 * margin) * strip / (1 - strip)
    axes.set(title=panel.title, ylim=(floor, min(100.5, high + margin)))
    for place, line in enumerate(reset):
        _strip(axes, line, STRIP * (place + 0.6))


def _strip(axes: style.Axes, line: Curve, height: float) -> None:
    """A row of ticks at the foot of a panel, one for each reset, led by the method's marker."""
    look = style.look(line.number)
    end = line.images[-1]
    foot = axes.get_xaxis_transform()
    axes.plot([-0.05 * end], [height], look.marker, color=look.color, transform=foot, clip_on=False)
    ticks: dict[str, Any] = {"color": look.color, "markersize": 5, "markeredgewidth": 1.2}
    axes.plot(line.resets, [height] * len(line.resets), "|", transform=foot, **ticks)
    axes.set_xlim(left=-0.1 * end)
    axes.plot([], [], "|", label="resets to source", **{**ticks, "color": "#555555"})
