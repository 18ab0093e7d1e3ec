"""A paper's numbers beside measured ones, and why some of them must not be compared."""

from __future__ import annotations

from dataclasses import replace

from tta_bench.notes import Note, info
from tta_bench.papers.paper import AVERAGE, Paper, PaperTable, Published, load
from tta_bench.papers.paper import names as known
from tta_bench.report import names
from tta_bench.report.minutes import minutes_table
from tta_bench.report.paper_conditions import Reasons, paper_of, paper_row, table_for, why_not
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.tables import average, over_seeds
from tta_bench.report.values import Table, TableRow, Value


def paper_table(comparison: Comparison, name: str = "") -> Table | None:
    """Measured, published and their difference; None where the paper has no such table.

    `name` is a paper's name or folder; without one it is the paper that the suite reproduces.
    """
    paper = load(name) if name else paper_of(comparison)
    table = table_for(comparison, paper) if paper else None
    if paper is None or table is None:
        return None
    matched = {
        row.label: theirs for row in comparison.rows if (theirs := paper_row(row, paper, table)) in table.methods
    }
    make = minutes_table if table.minutes else _by_task if table.tasks else _averages
    found = make(comparison, paper, table, matched)
    legend = names.legend(comparison.tasks) if table.tasks else []
    return replace(found, notes=(*found.notes, *_left_over(comparison, paper, table, matched), *legend))


def no_table(comparison: Comparison, name: str) -> str:
    """What to say where `paper_table` finds none."""
    if not name and paper_of(comparison) is None:
        return f"{comparison.suite} reproduces no paper: name one with --paper NAME (known: {', '.join(known())})."
    return f"{name or 'Its paper'} has no table for {comparison.suite}."


def _by_task(comparison: Comparison, paper: Paper, table: PaperTable, matched: dict[str, str]) -> Table:
    """Three lines per method: measured, the paper's, and measured less the paper's."""
    reasons = Reasons()
    rows: list[TableRow] = []
    missing = len(set(table.tasks) - set(comparison.tasks))
    for row in _of(comparison, matched):
        entries = [table.accuracies.get((matched[row.label], task)) for task in (*comparison.tasks, AVERAGE)]
        # The spread over seeds is in the accuracy table; here it stays with the average, for the table's width.
        measured = [replace(over_seeds(row, task), std=None) for task in comparison.tasks]
        measured.append(average(row, comparison.tasks))
        published = [replace(_value(entry), std=None) for entry in entries[:-1]]
        published.append(_mean(published) if missing else _value(entries[-1]))
        provenance = next((entry.provenance for entry in entries if entry), "published")
        marks = reasons.judge(_reasons(row, paper, table, matched[row.label], provenance))
        rows += [
            (row.label, (*measured, Value(word="measured"))),
            (f"{row.label}, paper", (*published, Value(word=provenance))),
            (f"{row.label}, difference", (*map(_less, measured, published), marks)),
        ]
    columns = (*names.columns(comparison.tasks), "Avg.", "comparable")
    text = f"Avg.: without {missing} of the paper's {len(table.tasks)} tasks, on both sides."
    notes = [*reasons.notes(), *([info(text)] if missing else [])]
    return Table(f"{comparison.caption}: measured and paper (%)", columns, tuple(rows), tuple(notes))


def _averages(comparison: Comparison, paper: Paper, table: PaperTable, matched: dict[str, str]) -> Table:
    """One line per method, for a table that prints averages only."""
    reasons = Reasons()
    rows = []
    for row in _of(comparison, matched):
        entry = table.accuracies[matched[row.label], AVERAGE]
        measured, published = average(row, comparison.tasks), _value(entry)
        marks = reasons.judge(_reasons(row, paper, table, matched[row.label], entry.provenance))
        rows.append((row.label, (measured, published, _less(measured, published), marks)))
    columns = ("Avg.", "paper", "difference", "comparable")
    return Table(f"{comparison.caption}: measured and paper (%)", columns, tuple(rows), tuple(reasons.notes()))


def _of(comparison: Comparison, matched: dict[str, str]) -> list[Row]:
    return [row for row in comparison.rows if row.label in matched]


def _reasons(row: Row, paper: Paper, table: PaperTable, name: str, provenance: str) -> list[str]:
    return [*([paper.citation(name)] if provenance == "cited" else []), *why_not(row, paper, table)]


def _left_over(comparison: Comparison, paper: Paper, table: PaperTable, matched: dict[str, str]) -> list[Note]:
    """Rows that only one side has; the paper's with their numbers and where they come from."""
    ours = [row.label for row in comparison.rows if row.label not in matched]
    theirs = [name for name in table.methods if name not in matched.values()]
    cited: dict[str, list[str]] = {}
    for name in theirs:
        if any(entry.provenance == "cited" for (row, _), entry in table.accuracies.items() if row == name):
            cited.setdefault(paper.citation(name), []).append(name)
    printed = ", ".join(_printed(table, name) for name in theirs)
    return [
        *([info(f"Not in the paper: {', '.join(ours)}.")] if ours else []),
        *([info(f"In the paper and not measured here: {printed}.")] if theirs else []),
        *(info(f"Of these, {', '.join(rows)}: {citation}.") for citation, rows in cited.items()),
    ]


def _printed(table: PaperTable, name: str) -> str:
    """A row of the paper with its average or its minutes."""
    if name in table.minutes:
        return f"{name} ({table.minutes[name]:g} min)"
    entry = table.accuracies.get((name, AVERAGE))
    return f"{name} ({_value(entry)})" if entry else name


def _value(entry: Published | None) -> Value:
    return Value(entry.accuracy, entry.std) if entry else Value()


def _mean(published: list[Value]) -> Value:
    """The paper's average over the tasks measured here; empty if it has no number for one of them."""
    return Value(sum(value.mean for value in published) / len(published))


def _less(measured: Value, paper: Value) -> Value:
    return Value(measured.mean - paper.mean, signed=True, word=measured.word)
