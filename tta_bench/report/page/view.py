"""What the page's template shows: plain values, which the template escapes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tta_bench.notes import Level, Note
from tta_bench.records.record import Record
from tta_bench.report import names
from tta_bench.report.column import Column
from tta_bench.report.columns import columns_at
from tta_bench.report.page.data import Line
from tta_bench.report.rows import Comparison, Row, counted
from tta_bench.report.tables import scoring_columns
from tta_bench.report.values import NONE, Value

SHADES = 8


def facts(comparison: Comparison) -> list[str]:
    """What all rows have in common."""
    cell = comparison.rows[0].first.cell
    seeds = len({record.cell.spec.seed for record in comparison.records})
    return [
        f"suite {comparison.suite}",
        f"model {cell.spec.model}",
        f"batch size {cell.spec.batch_size}",
        cell.found.device,
        *([f"scenario {cell.conditions.scenario}"] if cell.spec.scenario != "normal" else []),
        counted(len(comparison.rows), "method"),
        counted(len(comparison.tasks), "task"),
        counted(seeds, "seed"),
    ]


def warnings(notes: Sequence[Note]) -> list[str]:
    """What must be read before any number; failures have a table of their own."""
    return [str(note) for note in notes if note.is_loud and note.level != Level.FAILED]


def quiet(notes: Sequence[Note]) -> list[str]:
    return [str(note) for note in notes if not note.is_loud]


def heads(comparison: Comparison, lines: Sequence[Line]) -> list[tuple[str, str, str]]:
    """Names, directions of the first sort and explanations: the average first, where a phone shows it."""
    scores = [("Avg.", "average over tasks"), *zip(names.columns(comparison.tasks), comparison.tasks, strict=True)]
    more = [(column.title, column) for column in _costs(comparison, lines)]
    more += [(column.head, column) for column in scoring_columns(comparison)]
    return [
        ("Method", "asc", "Method"),
        *((name, "desc", about) for name, about in scores),
        *((name, "desc" if column.better == "higher" else "asc", column.about or name) for name, column in more),
    ]


def leaderboard(comparison: Comparison, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """For each row its label, its scores as (task, value, shade), the average first, and what it took."""
    costs = [column.title for column in _costs(comparison, lines)]
    shades = [_shades([line.means[i] for line in lines]) for i in range(len(comparison.tasks) + 1)]
    return [
        {
            "label": line.row.label,
            "scores": [
                (task, line.scores[i], shades[i][number]) for i, task in enumerate(("", *comparison.tasks), start=-1)
            ],
            "facts": [*(line.costs.get(name, Value()) for name in costs), *line.more.values()],
        }
        for number, line in enumerate(lines)
    ]


def failures(comparison: Comparison) -> list[tuple[str, str, int, str]]:
    return [
        (row.label, record.cell.name, record.cell.spec.seed, record.reason)
        for row in comparison.rows
        for record in row.records
        if record.status != "done"
    ]


def details(lines: Sequence[Line]) -> list[tuple[str, dict[str, dict[str, str]]]]:
    """For each row its settings, its measurements and where it ran."""
    return [
        (
            line.row.label,
            {
                "Settings": _words(_settings(line.row)),
                "Measured": _words(_measured(line)),
                "Environment": environment(line.row.records),
            },
        )
        for line in lines
    ]


def _costs(comparison: Comparison, lines: Sequence[Line]) -> list[Column]:
    """The page's columns that have a number in some row."""
    return [column for column in columns_at("page", comparison) if any(column.title in line.costs for line in lines)]


def _shades(values: Sequence[float]) -> list[int]:
    """From 0, the lowest of a column, to SHADES; all 0 where the column has one value only."""
    known = [value for value in values if not math.isnan(value)]
    low, high = min(known, default=0), max(known, default=0)
    if high - low < 0.05:
        return [0] * len(values)
    return [0 if math.isnan(value) else round(SHADES * (value - low) / (high - low)) for value in values]


def _settings(row: Row) -> dict[str, Any]:
    cell = row.first.cell
    return {
        "method": cell.spec.method,
        **cell.own_settings,
        "model": cell.spec.model,
        "weights": cell.found.weights,
        "batch size": cell.spec.batch_size,
        "limit": cell.spec.limit,
        "amp": cell.spec.amp,
        "compile": cell.spec.compile,
        "data": " / ".join(dict.fromkeys(word(record.cell.data) for record in row.records)),
        "code": cell.found.method_code,
    }


def _measured(line: Line) -> dict[str, Any]:
    done = line.row.done
    if not done:
        return {"finished cells": 0}
    average, bounds = line.scores[-1], line.intervals[-1]
    return {
        "average": f"{average}" + (f" (95 %: {bounds[0]:.1f} to {bounds[1]:.1f})" if bounds else ""),
        "top-5": f"{100 * sum(record.scores.top5 for record in done) / len(done):.1f}",
        "calibration error": f"{100 * sum(record.scores.ece for record in done) / len(done):.1f}",
        **{name: str(value) for name, value in line.costs.items()},
        "own resets": sum(record.measured.resets for record in done),
        "seeds": ", ".join(map(str, sorted({record.cell.spec.seed for record in done}))),
        "finished cells": f"{len(done)} of {len(line.row.records)}",
        "last finished": max(record.finished_at for record in done),
    }


def environment(records: Iterable[Record]) -> dict[str, str]:
    """Every fact; where the cells of a row differ, all that were seen."""
    seen: dict[str, dict[str, None]] = {}
    for record in records:
        for key, value in record.measured.environment.items():
            for name, fact in value.items() if isinstance(value, dict) else [(key, value)]:
                seen.setdefault(str(name), {})[word(fact)] = None
    return {name: " / ".join(found) for name, found in seen.items()}


def _words(content: Mapping[str, Any]) -> dict[str, str]:
    return {key: word(value) for key, value in content.items()}


def word(value: Any) -> str:
    if value is None:
        return NONE
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
