"""The same stream in several orders: the worst, the median and the best, and which order to run again."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from tta_bench.report.column import Context
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.values import NONE

NOTE = (
    "Average accuracy (%) over all tasks for each order of the images. Run the worst order again with --seeds and its "
    "seed. below Source: the orders in which a method falls below Source in the same order. A row without numbers is "
    "not done in every order."
)


def count(comparison: Comparison) -> int:
    return len({record.cell.spec.seed for record in comparison.records})


def across_orders(function: Callable[[Iterable[float]], float]) -> Callable[[Row, Context], float | None]:
    """A number of a row's averages in all orders; none if one is missing, for that may be the worst."""

    def found(row: Row, context: Context) -> float | None:
        own = _averages(row, context.comparison)
        return function(list(own.values())) if len(own) == count(context.comparison) else None

    return found


worst = across_orders(min)


def worst_seed(row: Row, context: Context) -> str | None:
    own = _averages(row, context.comparison)
    return str(min(own, key=lambda seed: own[seed])) if len(own) == count(context.comparison) else None


def below_source(row: Row, context: Context) -> str | None:
    """In how many orders a row is below Source; marked if its worst order is one of them."""
    own, lowest = _averages(row, context.comparison), worst_seed(row, context)
    source = _averages(context.source, context.comparison) if context.source else {}
    if lowest is None or own == source or not source:
        return None if lowest is None else NONE
    below = [seed for seed in own if seed in source and own[seed] < source[seed]]
    return f"{len(below)}/{len(own)}{' ⚠' if int(lowest) in below else ''}"


def by_seed(row: Row) -> dict[int, dict[str, float]]:
    """The accuracies of each seed's finished tasks, as fractions."""
    found: dict[int, dict[str, float]] = {record.cell.spec.seed: {} for record in row.records}
    for record in row.done:
        found[record.cell.spec.seed] |= record.accuracies
    return found


def _averages(row: Row, comparison: Comparison) -> dict[int, float]:
    """The average over tasks in percent for each seed that has all tasks."""
    return {
        seed: 100 * statistics.fmean(scores.values())
        for seed, scores in sorted(by_seed(row).items())
        if len(scores) == len(comparison.tasks)
    }
