"""The parts of the page that are there without JavaScript: facts, notes, leaderboard, failures and details."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from tta_bench.records.record import Record
from tta_bench.report import names
from tta_bench.report.page.data import Line
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.values import FAILED, NONE, Value

LOUD = ("FAILED", "NOT ", "WARNING")
SHADES = 8
CLOSE = (
    '<span class="close" title="not distinguishable from the best" aria-hidden="true">≈</span>'
    '<span class="unseen">not distinguishable from the best: </span>'
)
ABOUT = {
    "Avg.": "average over tasks",
    "scored": "the weights that a prediction is taken with",
    "fwd": "forward passes per image",
    "bwd": "backward passes per image",
    "src": "needs source images",
}


def facts(comparison: Comparison) -> str:
    """What all rows have in common, in one line."""
    cell = comparison.rows[0].first.cell
    seeds = len({record.cell.seed for row in comparison.rows for record in row.records})
    told = (
        f"suite {comparison.suite}",
        f"model {cell.model}",
        f"batch size {cell.batch_size}",
        cell.device,
        *([f"scenario {cell.conditions.scenario}"] if cell.scenario != "normal" else []),
        _count(len(comparison.rows), "method"),
        _count(len(comparison.tasks), "task"),
        _count(seeds, "seed"),
    )
    return " · ".join(escape(fact) for fact in told)


def warnings(told: Sequence[str]) -> str:
    """What must be read before any number; failures have a table of their own."""
    loud = [note for note in told if note.startswith(LOUD) and not note.startswith("FAILED")]
    return "".join(f'<p class="warning" role="note">{prose(note)}</p>\n' for note in loud)


def notes(told: Sequence[str]) -> str:
    quiet = "".join(f"<li>{prose(note)}</li>" for note in told if not note.startswith(LOUD))
    return f'<ul class="notes">{quiet}</ul>' if quiet else ""


def leaderboard(tasks: Sequence[str], lines: Sequence[Line], close: Collection[str] = ()) -> str:
    """The table: the average first, where a phone shows it, then tasks, then what it took; `close` rows marked."""
    costs = [name for name in ("ms/image", "× Source") if any(name in line.costs for line in lines)]
    more = list(lines[0].more)
    head = _head("Method", "asc") + _head("Avg.", "desc")
    head += "".join(_head(name, "desc", task) for name, task in zip(names.columns(tasks), tasks, strict=True))
    head += "".join(_head(name, "asc") for name in (*costs, *more))
    shades = [_shades([line.means[i] for line in lines]) for i in range(len(tasks) + 1)]
    body = ""
    for number, line in enumerate(lines):
        cells = _name(number, line.row) + _score(
            line, -1, shades[-1][number], "", CLOSE if line.row.label in close else ""
        )
        cells += "".join(_score(line, i, shades[i][number], task) for i, task in enumerate(tasks))
        cells += "".join(_number(line.costs.get(name)) for name in costs)
        cells += "".join(_fact(line.more[name]) for name in more)
        body += f'<tr data-row="{number}">{cells}</tr>\n'
    return f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>"


def failures(comparison: Comparison) -> str:
    failed = [(row, record) for row in comparison.rows for record in row.records if record.status != "done"]
    if not failed:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(row.label)}</th><td>{escape(record.cell.name)}</td>'
        f"<td>{record.cell.seed}</td><td>{escape(record.reason)}</td></tr>\n"
        for row, record in failed
    )
    return (
        '<section id="failures" aria-labelledby="failures-title"><h2 id="failures-title">Failed cells</h2>\n'
        '<div class="scroll" tabindex="0" role="region" aria-labelledby="failures-title"><table class="plain">'
        '<thead><tr><th scope="col">Method</th><th scope="col">Stream</th><th scope="col">Seed</th>'
        f'<th scope="col">Reason</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div></section>'
    )


def details(lines: Sequence[Line]) -> str:
    """One fold per row: its settings, its measurements and where it ran."""
    return "\n".join(
        f'<details id="row-{number}"><summary>{escape(line.row.label)}</summary><div class="facts">'
        + _facts("Settings", _settings(line.row))
        + _facts("Measured", _measured(line))
        + _facts("Environment", _environment(line.row.records))
        + "</div></details>"
        for number, line in enumerate(lines)
    )


def _head(name: str, first: str, about: str = "") -> str:
    about = about or ABOUT.get(name, name)
    shown = escape(name) if about == name else f'<abbr title="{escape(about)}">{escape(name)}</abbr>'
    return f'<th scope="col" aria-sort="none"><button type="button" data-first="{first}">{shown}</button></th>'


def _name(number: int, row: Row) -> str:
    label = escape(row.label)
    return f'<th scope="row" data-value="{label.lower()}"><a href="#row-{number}">{label}</a></th>'


def _score(line: Line, i: int, shade: int, task: str, mark: str = "") -> str:
    value = line.scores[i]
    if value.word == FAILED:
        return '<td class="failed"><a href="#failures">failed</a></td>'
    if value.word or math.isnan(value.mean):
        return f'<td class="missing">{escape(str(value))}</td>'
    text = _figure(value)
    if task:
        told = escape(f"{line.row.label} on {task}: {value}, show the curve")
        stream = escape(task)
        text = f'<button type="button" tabindex="-1" data-task="{stream}" aria-label="{told}">{text}</button>'
    best = " best" if value.best else ""
    kind = "score" if task else "average"
    return f'<td class="{kind}{best}" data-shade="{shade}" data-value="{value.mean:.4f}">{mark}{text}</td>'


def _figure(value: Value) -> str:
    """Mean and spread in two lines, so that fifteen columns fit."""
    spread = "" if value.std is None else f' <span class="spread">±{value.std:.{value.digits}f}</span>'
    return f"{value.mean:.{value.digits}f}{spread}"


def _number(value: float | None) -> str:
    return f'<td class="missing">{NONE}</td>' if value is None else f'<td data-value="{value:.6g}">{value:.2f}</td>'


def _fact(value: Value) -> str:
    if value.word:
        return f'<td data-value="{escape(value.word)}">{escape(value.word)}</td>'
    return _number(None if math.isnan(value.mean) else value.mean)


def _shades(values: Sequence[float]) -> list[int]:
    """From 0, the lowest of a column, to SHADES; all alike where the column has but one value."""
    known = [value for value in values if not math.isnan(value)]
    low, high = min(known, default=0), max(known, default=0)
    if high - low < 0.05:
        return [0] * len(values)
    return [0 if math.isnan(value) else round(SHADES * (value - low) / (high - low)) for value in values]


def _settings(row: Row) -> dict[str, Any]:
    cell = row.first.cell
    return {
        "method": cell.method,
        **cell.own_settings,
        "model": cell.model,
        "weights": cell.weights,
        "batch size": cell.batch_size,
        "limit": cell.limit,
        "amp": cell.amp,
        "compile": cell.compile,
        "data": " / ".join(dict.fromkeys(_word(record.cell.data) for record in row.records)),
        "code": cell.method_code,
    }


def _measured(line: Line) -> dict[str, Any]:
    done = [record for record in line.row.records if record.status == "done"]
    if not done:
        return {"finished cells": 0}
    average, bounds = line.scores[-1], line.intervals[-1]
    return {
        "average": f"{average}" + (f" (95 %: {bounds[0]:.1f} to {bounds[1]:.1f})" if bounds else ""),
        "top-5": f"{100 * sum(record.top5 for record in done) / len(done):.1f}",
        "calibration error": f"{100 * sum(record.ece for record in done) / len(done):.1f}",
        **{name: f"{value:.2f}" for name, value in line.costs.items()},
        "own resets": sum(record.resets for record in done),
        "seeds": ", ".join(map(str, sorted({record.cell.seed for record in done}))),
        "finished cells": f"{len(done)} of {len(line.row.records)}",
        "last finished": max(record.finished_at for record in done),
    }


def _environment(records: Iterable[Record]) -> dict[str, Any]:
    """Every fact; where the cells of a row differ, all that were seen."""
    seen: dict[str, dict[str, None]] = {}
    for record in records:
        for key, value in record.environment.items():
            for name, fact in value.items() if isinstance(value, dict) else [(key, value)]:
                seen.setdefault(str(name), {})[_word(fact)] = None
    return {name: " / ".join(facts) for name, facts in seen.items()}


def _facts(title: str, content: dict[str, Any]) -> str:
    pairs = "".join(f"<dt>{escape(str(k))}</dt><dd>{escape(_word(v))}</dd>" for k, v in content.items())
    return f"<div><h3>{escape(title)}</h3><dl>{pairs}</dl></div>"


def _word(value: Any) -> str:
    if value is None:
        return NONE
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def prose(text: str) -> str:
    """A note as markup: `so` is code, all else is text."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
