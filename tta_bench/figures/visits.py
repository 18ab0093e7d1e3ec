"""`visits`: the error at each visit of a recurring stream; `forgetting`: accuracy on the clean parts of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError, require_known
from tta_bench.figures import many, rows, style
from tta_bench.records.store import Store
from tta_bench.report import visits
from tta_bench.report.choose import Filter
from tta_bench.report.rows import Row


@dataclass(frozen=True)
class VisitLine:
    """One row at each visit."""

    label: str
    number: int  # of the row; sets its colour, marker and line
    mean: NDArray[np.float64]  # over seeds, in percent
    spread: NDArray[np.float64]  # standard deviation over seeds


@dataclass(frozen=True)
class Visits:
    lines: tuple[VisitLine, ...]
    x: str
    y: str
    notes: tuple[str, ...]


def data(folder: Path, tasks: Sequence[str] = (), methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Visits:
    """The errors of a run's rows at each visit, with slopes and collapses as notes."""
    found, store = rows.read(folder, methods, where), Store.open(folder)
    source = next((row for row in found.rows if row.is_source), None)
    lines, notes = [], list(map(str, found.notes))
    for number, row in enumerate(found.rows):
        if not row.done:
            notes.append(f"Left out: {row.label}, not done")
            continue
        errors = [100 - _accuracies(row, i, tasks, store) for i in range(len(row.done))]
        if min(map(len, errors)) < 2:
            raise UserError(f"{folder}: no image comes twice: run with a scenario such as continual+recurring:20")
        lines.append(_line(row.label, number, errors))
        if (change := visits.slope([list(one) for one in errors])) is not None:
            notes.append(
                f"{row.label}: error changes by {change.mean:+.2f} points per visit "
                f"(95 % interval {change.low:+.2f} to {change.high:+.2f})"
            )
        notes += _collapses(row, source, store)
    return Visits(_some(lines, folder), "visit", "error (%)", tuple(notes))


def forgetting(folder: Path, methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Visits:
    """The accuracy each time that clean images come; the axis says whether methods adapt to them."""
    found, store = rows.read(folder, methods, where), Store.open(folder)
    if visits.clean_task(found.records[0]) is None:
        raise UserError(f"{folder}: no clean images in its streams: run with --scenario forgetting or --remember 256")
    lines = [
        _line(row.label, number, [visits.clean(store.predictions(record), record) for record in row.done])
        for number, row in enumerate(found.rows)
        if row.done
    ]
    is_probe = visits.is_probe(found.records[0])
    how = "a probe: methods predict them" if is_probe else "parts of the stream: methods adapt to them"
    notes = (*map(str, found.notes), f"Clean images are {how}.")
    x = "probes, the first before all tasks" if is_probe else "tasks seen"
    y = "accuracy on probed clean images (%)" if is_probe else "accuracy on clean images adapted to (%)"
    return Visits(_some(lines, folder), x, y, notes)


def _some(lines: list[VisitLine], folder: Path) -> tuple[VisitLine, ...]:
    if not lines:
        raise UserError(f"{folder}: no row is done: run the same command again")
    return tuple(lines)


def _accuracies(row: Row, number: int, tasks: Sequence[str], store: Store) -> NDArray[np.float64]:
    record = row.done[number]
    if record.cell.spec.limit is not None:
        raise UserError("--limit keeps other images at each visit, so visits cannot be compared: run without --limit")
    known, clean = list(record.cell.spec.tasks), visits.clean_task(record)
    require_known(tasks, known, "no task")
    chosen = [known.index(task) for task in tasks] or [i for i in range(len(known)) if i != clean]
    predictions = store.predictions(record)
    if not visits.comes_equally(predictions, chosen):
        raise UserError(f"{record.cell.spec.scenario}: its images come unequally often, so they have no visits")
    return visits.accuracies(predictions, chosen)


def _line(label: str, number: int, values: list[NDArray[np.float64]]) -> VisitLine:
    many = np.array(values)
    return VisitLine(label, number, many.mean(0), many.std(0, ddof=1) if len(many) > 1 else np.zeros(many.shape[1]))


def _collapses(row: Row, source: Row | None, store: Store) -> list[str]:
    notes = []
    bases = {one.cell.spec.seed: one for one in source.done} if source is not None and row is not source else {}
    for record in row.done:
        seed = record.cell.spec.seed
        at = visits.collapsed(store.predictions(record), store.predictions(bases[seed])) if seed in bases else []
        if at:
            notes.append(f"{row.label}, seed {seed}: collapsed at visit {', '.join(map(str, at))}")
    return notes


def draw(found: Visits) -> style.Figure:
    lines = [many.Line(line.label, line.number, line.mean.tolist()) for line in found.lines]
    figure = style.new_figure(*((style.TEXT, 4.2) if many.is_many(lines) else (style.COLUMN, 2.9)))
    axes, looks = figure.subplots(), many.looks(lines, min if found.y.startswith("error") else max)
    places = range(1, len(lines[0].values) + 1)
    for line, look in zip(found.lines, looks, strict=True):
        spread = line.spread if line.spread.any() and look is not many.FAINT else None
        axes.errorbar(places, line.mean, yerr=spread, **look, capsize=2, label=line.label)
    axes.set(xlabel=found.x, ylabel=found.y)
    axes.locator_params(axis="x", integer=True)
    many.name(axes, places[-1], lines, looks)
    return figure
