"""A paper's time table: its minutes beside measured ones, and how many times longer one method takes than another."""

from __future__ import annotations

from collections.abc import Mapping

from tta_bench.papers.paper import Paper, PaperTable
from tta_bench.report.comparable import Reasons, why_not
from tta_bench.report.costs import extrapolated, machines_of, minutes, minutes_name, paired
from tta_bench.report.ratio import TimeRatio, time_ratio
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.values import Table, Value


def minutes_table(comparison: Comparison, paper: Paper, table: PaperTable, matched: Mapping[str, str]) -> Table:
    """Minutes depend on the hardware, so the ratio to a baseline is what can be compared with the paper's.

    The baseline is the first method of the paper's table that is measured here.
    """
    theirs = {label: table.minutes[row] for label, row in matched.items()}
    order = list(table.minutes)
    ours = [row for row in comparison.rows if row.label in matched and row.done]
    base = min(ours, key=lambda row: order.index(matched[row.label]), default=None)
    reasons, rows, notes = Reasons(), [], []
    for row in ours:
        here = f"other hardware: {', '.join(machines_of(comparison))}; the paper's is {table.hardware}"
        marks = reasons.marks([here, *why_not(row, paper, table)])
        measured = (Value(minutes(row.done, table.images), digits=2), Value(theirs[row.label], digits=0))
        rows.append((row.label, (*measured, *_ratio(row, base, theirs), Value(word=marks))))
        if base and row is not base:
            notes.append(_sentence(row, base, theirs))
    baseline = base.label if base else "baseline"
    columns = (
        minutes_name(table.images),
        "paper min",
        f"× {baseline}",
        "95 % low",
        "high",
        f"paper × {baseline}",
        "comparable",
    )
    notes += [extrapolated(comparison, table.images), *reasons.notes()]
    return Table(f"{comparison.suite}: measured and paper", columns, tuple(rows), tuple(notes))


def _ratio(row: Row, base: Row | None, theirs: Mapping[str, float]) -> tuple[Value, ...]:
    if base is None or row is base:
        return (Value(1.0, digits=2), Value(), Value(), Value(1.0, digits=2))
    found = time_ratio(paired(row.done, base.done))
    published = Value(theirs[row.label] / theirs[base.label], digits=2)
    if found is None:
        return (Value(minutes(row.done) / minutes(base.done), digits=2), Value(), Value(), published)
    return (Value(found.value, digits=2), Value(found.low, digits=2), Value(found.high, digits=2), published)


def _sentence(row: Row, base: Row, theirs: Mapping[str, float]) -> str:
    """The ratio in words, where the same batches were timed."""
    found = time_ratio(paired(row.done, base.done))
    if found is None:
        return f"{row.label} / {base.label}: no batches in common, the ratio is that of the minutes."
    own, other = theirs[row.label], theirs[base.label]
    return f"{row.label} / {base.label}: {_words(found)}; the paper's {own:g}/{other:g} = {own / other:.2f}."


def _words(found: TimeRatio) -> str:
    span = f"95 % interval {found.low:.2f} to {found.high:.2f}" if found.sure else "too few for an interval"
    return f"{found.value:.2f} over {found.batches} matched batches without each stream's first ({span})"
