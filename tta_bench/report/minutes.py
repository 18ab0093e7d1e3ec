"""The paper's time table: its minutes beside measured ones, and how many times longer a method takes than another."""

from __future__ import annotations

from tta_bench.papers import published
from tta_bench.report.comparable import Reasons, left_over, paper_name, why_not
from tta_bench.report.costs import extrapolated, machines_of, minutes, paired
from tta_bench.report.ratio import TimeRatio, time_ratio
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.values import Table, Value


def minutes_table(comparison: Comparison) -> Table:
    """Minutes are those of the paper's hardware, so the ratio to its baseline is what can be held against it.

    The baseline is the first method of the paper's table that is measured here.
    """
    paper = {row["method"]: row for row in published.rows("time.csv", comparison.suite)}
    matched = {row.label: paper_name(row) for row in comparison.rows if row.done and paper_name(row) in paper}
    ours = [row for row in comparison.rows if row.label in matched]
    base = min(ours, key=lambda row: list(paper).index(matched[row.label]), default=None)
    reasons, rows, notes = Reasons(), [], []
    for row in ours:
        theirs = paper[matched[row.label]]
        here = f"other hardware: {', '.join(machines_of(comparison))}; the paper's is {theirs['hardware']}"
        marks = reasons.marks([here, *why_not(row, matched[row.label])])
        measured = (Value(minutes(row.done), digits=2), Value(float(theirs["minutes"]), digits=0))
        rows.append((row.label, (*measured, *_ratio(row, base, paper, matched), Value(word=marks))))
        if base and row is not base:
            notes += _sentence(row, base, paper, matched)
    baseline = base.label if base else "baseline"
    columns = ("min/50k", "paper min", f"× {baseline}", "95 % low", "high", f"paper × {baseline}", "comparable")
    notes += [extrapolated(comparison), *reasons.notes(), *left_over(comparison, matched, list(paper))]
    return Table(f"{comparison.suite}: measured and paper", columns, tuple(rows), tuple(notes))


Paper = dict[str, dict[str, str]]


def _ratio(row: Row, base: Row | None, paper: Paper, matched: dict[str, str]) -> tuple[Value, ...]:
    if base is None or row is base:
        return (Value(1.0, digits=2), Value(), Value(), Value(1.0, digits=2))
    found = time_ratio(paired(row.done, base.done))
    theirs = Value(_theirs(row, base, paper, matched), digits=2)
    if found is None:
        return (Value(minutes(row.done) / minutes(base.done), digits=2), Value(), Value(), theirs)
    return (Value(found.value, digits=2), Value(found.low, digits=2), Value(found.high, digits=2), theirs)


def _sentence(row: Row, base: Row, paper: Paper, matched: dict[str, str]) -> list[str]:
    """The ratio in words, where the same batches were timed."""
    found = time_ratio(paired(row.done, base.done))
    if found is None:
        return [f"{row.label} / {base.label}: no batches in common, the ratio is that of the minutes."]
    ours, theirs = (paper[matched[one.label]]["minutes"] for one in (row, base))
    published_ratio = f"the paper's {ours}/{theirs} = {_theirs(row, base, paper, matched):.2f}"
    return [f"{row.label} / {base.label}: {_words(found)}; {published_ratio}."]


def _words(found: TimeRatio) -> str:
    span = f"95 % interval {found.low:.2f} to {found.high:.2f}" if found.sure else "too few for an interval"
    return f"{found.value:.2f} over {found.batches} matched batches without each stream's first ({span})"


def _theirs(row: Row, base: Row, paper: Paper, matched: dict[str, str]) -> float:
    return float(paper[matched[row.label]]["minutes"]) / float(paper[matched[base.label]]["minutes"])
