"""`sweep`: average accuracy against one numeric setting, or against what a suite sweeps, all else equal."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tta_bench.errors import UserError
from tta_bench.figures import lines, rows, style
from tta_bench.figures.lines import Chart
from tta_bench.papers.baseline import own_paper
from tta_bench.records.store import Store
from tta_bench.report.choose import Filter, matching
from tta_bench.report.comparable import shipped_suite
from tta_bench.report.rows import Row
from tta_bench.report.sweep import varying
from tta_bench.suites.suite import AXES


@dataclass(frozen=True)
class Sweep:
    """Accuracy in percent at each value of a setting, all else equal, with a row without the setting for comparison."""

    setting: str
    axis: str  # what its paper calls the setting
    values: tuple[float, ...]
    accuracy: tuple[float, ...]
    spread: tuple[float, ...]  # standard deviation over seeds
    base: tuple[str, float] | None  # a row without the setting, for comparison
    caution: str
    notes: tuple[str, ...]


def data(folder: Path, setting: str = "", methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Sweep | Chart:
    """The sweep in a run's folder: of a method's setting, or of all rows over what a suite sweeps."""
    if setting in AXES:
        return lines.data(folder, setting, methods, where)
    try:
        return _of_setting(folder, setting, methods, where)
    except UserError:
        is_run = Store(folder).manifest.is_file()
        axes = varying(matching(Store.open(folder).records(), where)) if is_run else []
        if setting or len(axes) != 1:
            raise
        return lines.data(folder, axes[0], methods, where)


def _of_setting(folder: Path, setting: str, methods: Sequence[str], where: Sequence[Filter]) -> Sweep:
    """The sweep of a setting; rows that differ in more than the setting are refused."""
    found = rows.read(folder, methods, where)
    setting = setting or _swept(found.rows, folder)
    swept = {float(row.first.cell.found.settings[setting]): row for row in found.rows if _has(row, setting)}
    if len(swept) < 2:
        raise UserError(f"{folder}: needs rows with at least two values of '{setting}', found {len(swept)}")
    rest = {value: _others(row, setting) for value, row in swept.items()}
    first, *others = rest.values()
    for other in others:
        differing = sorted(key for key in {*first, *other} if first.get(key) != other.get(key))
        if differing:
            raise UserError(f"{folder}: rows of the sweep differ in {', '.join(differing)} too: no fair sweep")
    if len(swept) < sum(_has(row, setting) for row in found.rows):
        raise UserError(f"{folder}: two rows have the same '{setting}': no clear sweep")
    scores = {value: rows.average(swept[value], found.tasks) for value in sorted(swept)}
    unfinished = [swept[value].label for value, score in scores.items() if math.isnan(score.mean)]
    if unfinished:
        raise UserError(f"{folder}: not all tasks of {', '.join(unfinished)} are done: run the same command again")
    base = next(((r.label, rows.average(r, found.tasks).mean) for r in found.rows if not _has(r, setting)), None)
    paper = own_paper(shipped_suite(found.records[0].cell))
    return Sweep(
        setting=setting,
        axis=paper.terms.settings.get(setting, setting) if paper else setting,
        values=tuple(scores),
        accuracy=tuple(score.mean for score in scores.values()),
        spread=tuple(score.std or 0.0 for score in scores.values()),
        base=None if base is None or math.isnan(base[1]) else base,
        caution=rows.caution(found),
        notes=tuple(map(str, found.notes)),
    )


def _swept(found: Sequence[Row], folder: Path) -> str:
    """The one numeric setting in which rows of a method differ."""
    values: dict[tuple[str, str], set[float]] = defaultdict(set)
    for row in found:
        for setting, value in row.first.cell.own_settings.items():
            if _has(row, setting):
                values[row.first.cell.spec.method, setting].add(value)
    several = sorted({setting for (_, setting), seen in values.items() if len(seen) > 1})
    if len(several) != 1:
        there = f"rows differ in {', '.join(several)}" if several else "no two rows of a method differ in a setting"
        raise UserError(f"{folder}: {there}: choose a setting with --setting")
    return several[0]


def _has(row: Row, setting: str) -> bool:
    value = row.first.cell.found.settings.get(setting)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _others(row: Row, setting: str) -> dict[str, Any]:
    settings = {key: value for key, value in row.first.cell.own_settings.items() if key != setting}
    return {"method": row.first.cell.spec.method, **settings}


def draw(found: Sweep | Chart) -> style.Figure:
    if isinstance(found, Chart):
        return lines.draw(found)
    figure = style.new_figure(style.COLUMN, 2.3)
    axes = figure.subplots()
    look = style.look(1)
    places = range(len(found.values))  # evenly spaced: published sweeps step by factors and start at 0
    axes.errorbar(places, found.accuracy, yerr=found.spread if any(found.spread) else None, **look._asdict(), capsize=2)
    for place, accuracy in zip(places, found.accuracy, strict=True):
        axes.annotate(f"{accuracy:.1f}", (place, accuracy), (0, 6), textcoords="offset points", ha="center")
    if found.base:
        label, accuracy = found.base
        axes.axhline(accuracy, color="#555555", linestyle=style.LINES[1], linewidth=1)
        axes.annotate(
            f"{label} {accuracy:.1f}",
            (len(places) - 0.6, accuracy),
            (-3, 2),
            textcoords="offset points",
            ha="right",
            va="bottom",
        )
    axes.set_xticks(list(places), [f"{value:g}" for value in found.values])
    shown = [*found.accuracy, *([found.base[1]] if found.base else [])]
    axes.set_ylim(style.room([value + side * max(found.spread) for value in shown for side in (-1, 1)]))
    axes.set(
        xlabel=found.axis,
        ylabel=f"average accuracy (%){found.caution}",
        xlim=(-0.4, len(places) - 0.6),
    )
    return figure
