"""A paper's time table: its minutes beside measured ones, and how many times longer one method takes than another."""

from __future__ import annotations

from collections.abc import Mapping

from tta_bench.measure.ratio import Ratio
from tta_bench.notes import info
from tta_bench.papers.paper import Paper, PaperTable
from tta_bench.report.costs import extrapolated, machines_of, minutes, minutes_name, paired
from tta_bench.report.paper_conditions import Reasons, why_not
from tta_bench.report.ratio import matched_batches, time_ratio
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.values import Table, Value


def minutes_table(comparison: Comparison, paper: Paper, table: PaperTable, matched: Mapping[str, str]) -> Table:
    """Minutes depend on the hardware, so the ratio to a baseline is what can be compared with the paper's.

    The baseline is the first method of the paper's table that is measured here.
    """
    order = list(table.minutes)
    ours = [row for row in comparison.rows if row.label in matched and row.done]
    base = min(ours, key=lambda row: order.index(matched[row.label]), default=None)
    here = f"other hardware: {', '.join(machines_of(comparison))}; the paper's is {table.hardware}"
    reasons, rows, notes = Reasons(), [], []
    for row in ours:
        theirs = table.minutes[matched[row.label]]
        marks = reasons.judge([here, *why_not(row, paper, table)])
        measured = (Value(minutes(row.done, table.images), digits=2), Value(theirs, digits=0))
        ratio, published = Ratio(1.0), 1.0
        if base and row is not base:
            baseline = table.minutes[matched[base.label]]
            ratio, how = _ratio(row, base)
            published = theirs / baseline
            text = f"{row.label} / {base.label}: {how}; the paper's {theirs:g}/{baseline:g} = {published:.2f}."
            notes.append(info(text))
        values = (Value(value, digits=2) for value in (ratio.value, ratio.low, ratio.high, published))
        rows.append((row.label, (*measured, *values, marks)))
    name = base.label if base else "baseline"
    columns = (
        minutes_name(table.images),
        "paper min",
        f"× {name}",
        "95 % low",
        "high",
        f"paper × {name}",
        "comparable",
    )
    notes += [*extrapolated(comparison, table.images), *reasons.notes()]
    return Table(f"{comparison.caption}: measured and paper", columns, tuple(rows), tuple(notes))


def _ratio(row: Row, base: Row) -> tuple[Ratio, str]:
    """How many times longer a row takes than the baseline, and how that is known."""
    streams = matched_batches(paired(row.done, base.done))
    if not streams:
        return Ratio(minutes(row.done) / minutes(base.done)), "no batches in common, the ratio is that of the minutes"
    found = time_ratio(streams)
    span = f"95 % interval {found.low:.2f} to {found.high:.2f}" if found.has_interval else "too few for an interval"
    batches = sum(times.shape[1] for times in streams)
    return found, f"{found.value:.2f} over {batches} matched batches without each stream's first ({span})"
