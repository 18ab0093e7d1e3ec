"""The DPAL paper's numbers beside measured ones, and why some of them must not be compared."""

from __future__ import annotations

from dataclasses import replace

from tta_bench.papers import published
from tta_bench.report import names
from tta_bench.report.comparable import Reasons, left_over, paper_name, why_not
from tta_bench.report.minutes import minutes_table
from tta_bench.report.rows import Comparison
from tta_bench.report.tables import average, over_seeds
from tta_bench.report.values import Table, Value

# How the paper calls what our suites call otherwise.
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


def paper_table(comparison: Comparison) -> Table | None:
    """Measured, published and their difference; None where the paper has no such table."""
    if comparison.suite in VARIANTS:
        return _ablation(comparison)
    if comparison.suite == "cost":
        return minutes_table(comparison)
    return _accuracy(comparison) if published.accuracies(comparison.suite) else None


def _accuracy(comparison: Comparison) -> Table:
    """Three lines per method: measured, the paper's, and measured less the paper's."""
    there = published.accuracies(comparison.suite)
    known = list(dict.fromkeys(method for method, _ in there))
    places = [*map(published.paper_task, comparison.tasks), "average"]
    reasons = Reasons()
    rows: list[tuple[str, tuple[Value, ...]]] = []
    matched = {row.label: name for row in comparison.rows if (name := paper_name(row)) in known}
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
    notes = [*reasons.notes(), *left_over(comparison, matched, known), *names.legend(comparison.tasks)]
    columns = (*names.columns(comparison.tasks), "Avg.", "comparable")
    return Table(f"{comparison.suite}: measured and paper (%)", columns, tuple(rows), tuple(notes))


def _ablation(comparison: Comparison) -> Table:
    """The paper prints the average only."""
    numbers = {row["variant"]: float(row["accuracy"]) for row in published.rows("ablation.csv", comparison.suite)}
    reasons = Reasons()
    rows = []
    for row in comparison.rows:
        variant = VARIANTS[comparison.suite].get(row.label)
        if variant in numbers:
            measured, paper = average(row, comparison.tasks), Value(numbers[variant])
            marks = reasons.marks(why_not(row, row.first.cell.method))
            rows.append((row.label, (measured, paper, _less(measured, paper), Value(word=marks))))
    left = left_over(comparison, {label: "" for label, _ in rows}, [])
    columns = ("Avg.", "paper", "difference", "comparable")
    return Table(f"{comparison.suite}: measured and paper (%)", columns, tuple(rows), (*reasons.notes(), *left))


def _less(measured: Value, paper: Value) -> Value:
    return Value(measured.mean - paper.mean, signed=True, word=measured.word)
