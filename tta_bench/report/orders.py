"""The same stream in several orders: the worst, the median and the best, and which order to run again."""

from __future__ import annotations

import statistics

from tta_bench.notes import info
from tta_bench.papers.baseline import BASELINE
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.values import NONE, Table, Value

COLUMNS = ("worst", "its seed", "median", "best", "mean", "below Source")
EMPTY = (Value(),) * len(COLUMNS)
NOTE = (
    "Average accuracy (%) over all tasks for each order of the images. Run the worst order again with --seeds and its "
    "seed. below Source: the orders in which a method falls below Source in the same order. A row without numbers is "
    "not done in every order."
)


def orders_table(comparison: Comparison) -> Table:
    """One line per row; numbers only where it is done in every order: the one that is missing may be the worst."""
    count = len({record.cell.spec.seed for record in comparison.records})
    source = next((_by_seed(row, comparison) for row in comparison.rows if row.first.cell.spec.method == BASELINE), {})
    found = {row.label: _by_seed(row, comparison) for row in comparison.rows}
    rows = tuple((label, _line(own, source) if len(own) == count else EMPTY) for label, own in found.items())
    return Table(f"{comparison.suite}: {count} orders", COLUMNS, rows, (*comparison.notes, info(NOTE)))


def _by_seed(row: Row, comparison: Comparison) -> dict[int, float]:
    """The average over tasks in percent for each seed that has all tasks."""
    found: dict[int, dict[str, float]] = {}
    for record in row.done:
        found.setdefault(record.cell.spec.seed, {}).update(record.scores.task_top1)
    return {
        seed: 100 * statistics.fmean(scores.values())
        for seed, scores in sorted(found.items())
        if len(scores) == len(comparison.tasks)
    }


def _line(own: dict[int, float], source: dict[int, float]) -> tuple[Value, ...]:
    worst = min(own, key=lambda seed: own[seed])
    below = [seed for seed in own if seed in source and own[seed] < source[seed]]
    mark = NONE if own == source or not source else f"{len(below)}/{len(own)}{' ⚠' if worst in below else ''}"
    return (
        Value(own[worst]),
        Value(word=str(worst)),
        Value(statistics.median(own.values())),
        Value(max(own.values())),
        Value(statistics.fmean(own.values())),
        Value(word=mark),
    )
