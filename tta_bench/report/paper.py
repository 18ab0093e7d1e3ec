"""The DPAL paper's numbers beside measured ones, and why some of them must not be compared."""

from __future__ import annotations

import ast
import csv
import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from tta_bench import published
from tta_bench.report import names
from tta_bench.report.costs import machines_of, seconds_per_seed
from tta_bench.report.fair import shipped_suite
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.tables import average, over_seeds
from tta_bench.report.values import Table, Value

# How the paper calls what our suites call otherwise.
ALIASES = {"dpal-official": "dpal"}
VARIANTS = {
    "components": {
        "sar": "sar",
        "dst": "sar + domain shift token",
        "dst-similarity": "sar + domain shift token + similarity loss",
        "dpal": "dpal",
    },
    "tokens": {f"tokens-{n}": str(n) for n in (1, 2, 4, 8)},
}
CITED = "cited by the paper from other work, which normalised images otherwise or does not say how"
UNCLEAR_SCORE = "scored {}: the paper's text scores the first forward, its released code the second"
OWN_SOURCE = "source models fine-tuned here: the paper does not say how its own were"


def paper_table(comparison: Comparison) -> Table | None:
    """Measured, published and their difference; None where the paper has no such table."""
    if comparison.suite in VARIANTS:
        return _ablation(comparison)
    if comparison.suite == "cost":
        return _cost(comparison)
    return _accuracy(comparison) if published.accuracies(comparison.suite) else None


def _accuracy(comparison: Comparison) -> Table:
    """Three lines per method: measured, the paper's, and measured less the paper's."""
    there = published.accuracies(comparison.suite)
    known = list(dict.fromkeys(method for method, _ in there))
    places = [*map(published.paper_task, comparison.tasks), "average"]
    reasons = Reasons()
    rows: list[tuple[str, tuple[Value, ...]]] = []
    matched = {row.label: name for row in comparison.rows if (name := _paper_name(row)) in known}
    for row in comparison.rows:
        if row.label not in matched:
            continue
        entries = [there.get((matched[row.label], place)) for place in places]
        # The spread over seeds is in the accuracy table; here it stays with the average, for the table's width.
        measured = [replace(over_seeds(row, task), std=None) for task in comparison.tasks]
        measured.append(average(row, comparison.tasks))
        paper = [Value(entry.accuracy) if entry else Value() for entry in entries[:-1]]
        paper.append(Value(entries[-1].accuracy, entries[-1].std) if entries[-1] else Value())
        cited = any(entry is not None and entry.provenance == "cited" for entry in entries)
        marks = reasons.marks([*([CITED] if cited else []), *why_not(row, matched[row.label])])
        rows += [
            (row.label, (*measured, Value(word="measured"))),
            (f"{row.label}, paper", (*paper, Value(word="cited" if cited else "reproduced"))),
            (f"{row.label}, difference", (*map(_less, measured, paper), Value(word=marks))),
        ]
    notes = [*reasons.notes(), *_left_over(comparison, matched, known), *names.legend(comparison.tasks)]
    columns = (*names.columns(comparison.tasks), "Avg.", "comparable")
    return Table(f"{comparison.suite}: measured and paper (%)", columns, tuple(rows), tuple(notes))


def _ablation(comparison: Comparison) -> Table:
    """The paper prints the average only."""
    numbers = {row["variant"]: float(row["accuracy"]) for row in _read("ablation.csv", comparison.suite)}
    reasons = Reasons()
    rows = []
    for row in comparison.rows:
        variant = VARIANTS[comparison.suite].get(row.label)
        if variant in numbers:
            measured, paper = average(row, comparison.tasks), Value(numbers[variant])
            marks = reasons.marks(why_not(row, row.first.cell.method))
            rows.append((row.label, (measured, paper, _less(measured, paper), Value(word=marks))))
    left = _left_over(comparison, {label: "" for label, _ in rows}, [])
    columns = ("Avg.", "paper", "difference", "comparable")
    return Table(f"{comparison.suite}: measured and paper (%)", columns, tuple(rows), (*reasons.notes(), *left))


def _cost(comparison: Comparison) -> Table:
    """Minutes are those of the paper's hardware, so the ratio to its baseline is what can be held against it."""
    paper = {row["method"]: row for row in _read("time.csv", "cost")}
    base = next((row for row in comparison.rows if row.first.cell.method == "sar" and row.done), None)
    reasons, rows, matched = Reasons(), [], {}
    for row in comparison.rows:
        name = _paper_name(row)
        if name not in paper or not row.done:
            continue
        matched[row.label] = name
        theirs = paper[name]
        here = f"other hardware: {', '.join(machines_of(comparison))}; the paper's is {theirs['hardware']}"
        minutes, theirs_minutes = seconds_per_seed(row.done) / 60, float(theirs["minutes"])
        ratio = Value(minutes * 60 / seconds_per_seed(base.done), digits=2) if base else Value()
        rows.append(
            (
                row.label,
                (
                    Value(minutes, digits=2),
                    Value(theirs_minutes, digits=0),
                    ratio,
                    Value(theirs_minutes / float(paper["sar"]["minutes"]), digits=2),
                    Value(word=reasons.marks([here, *why_not(row, name)])),
                ),
            )
        )
    columns = ("minutes", "paper minutes", "× sar", "paper × sar", "comparable")
    notes = [*reasons.notes(), *_left_over(comparison, matched, list(paper))]
    return Table("cost: measured and paper", columns, tuple(rows), tuple(notes))


def why_not(row: Row, name: str) -> list[str]:
    """Why a row and the paper's must not be compared; empty if they may."""
    cell = row.first.cell
    suite = shipped_suite(cell)
    assert suite is not None, "only a shipped suite answers a table of the paper"
    reasons = []
    if suite.model == "by-task":
        reasons.append(OWN_SOURCE)
    elif cell.model != suite.model:
        reasons.append(f"other weights: {cell.model}, the paper's are {suite.model}")
    if cell.scenario != "normal":
        reasons.append(f"other scenario: {cell.scenario}")
    if cell.limit is not None:
        reasons.append(f"only the first {cell.limit} images of each stream")
    if cell.batch_size != suite.batch_size:
        reasons.append(f"batches of {cell.batch_size} images, the paper's of {suite.batch_size}")
    if cell.amp:
        reasons.append(f"adapted in {cell.amp}")
    point = row.first.score_point
    if name == "dpal":
        reasons.append(UNCLEAR_SCORE.format("on the first" if point == "pre-update" else "on the second"))
    elif row.done and point != "pre-update":
        reasons.append(f"scored {point}, the paper's before the update")
    given = suite.methods.get(row.first.label, {})
    expected = {**_defaults(cell.method), **{key: value for key, value in given.items() if key != "method"}}
    changed = {k: v for k, v in cell.own_settings.items() if k in expected and v != expected[k] and k != "seed"}
    if changed:
        told = ", ".join(f"{key}={value} for {expected[key]}" for key, value in changed.items())
        reasons.append(f"other settings than the suite's: {told}")
    return reasons


class Reasons:
    """Letters for reasons, so that a table stays narrow."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def marks(self, reasons: Sequence[str]) -> str:
        for reason in reasons:
            self.letters.setdefault(reason, chr(ord("a") + len(self.letters) % 26) * (1 + len(self.letters) // 26))
        return f"no: {' '.join(self.letters[reason] for reason in reasons)}" if reasons else "yes"

    def notes(self) -> list[str]:
        return [f"Not comparable, {letter}: {reason}." for reason, letter in self.letters.items()]


def _less(measured: Value, paper: Value) -> Value:
    return Value(measured.mean - paper.mean, signed=True, word=measured.word)


def _paper_name(row: Row) -> str:
    """What the paper calls this row; a suite's variant under a label of its own is not the paper's row."""
    label, method = row.first.label, row.first.cell.method
    return ALIASES.get(method, method) if label == method else label


def _left_over(comparison: Comparison, matched: dict[str, str], known: Sequence[str]) -> list[str]:
    ours = [row.label for row in comparison.rows if row.label not in matched]
    theirs = [name for name in known if name not in matched.values()]
    return [
        *([f"Not in the paper: {', '.join(ours)}."] if ours else []),
        *([f"In the paper and not measured here: {', '.join(theirs)}."] if theirs else []),
    ]


def _read(file: str, table: str) -> list[dict[str, str]]:
    text = resources.files("tta_bench_paper").joinpath(file).read_text()
    return [row for row in csv.DictReader(text.splitlines()) if row["table"] == table]


@cache
def _defaults(method: str) -> dict[str, Any]:
    """A method's published settings, read from its source: importing it would import torch."""
    entry = next((e for e in metadata.entry_points(group="tta_bench.methods") if e.name == method), None)
    spec = importlib.util.find_spec(entry.module) if entry else None
    if entry is None or spec is None or spec.origin is None:
        return {}
    for node in ast.walk(ast.parse(Path(spec.origin).read_text())):
        if isinstance(node, ast.ClassDef) and node.name == entry.attr:
            for function in node.body:
                if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                    pairs = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
                    return {a.arg: d.value for a, d in pairs if isinstance(d, ast.Constant)}
    return {}
