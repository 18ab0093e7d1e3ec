"""Whether records may share a table. If not, which cells must run again, and how."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache

from tta_bench.errors import UnmatchedStreams, UserError
from tta_bench.papers import baseline
from tta_bench.papers.baseline import own_table
from tta_bench.records.cell import Cell
from tta_bench.records.conditions import RULES, Rule
from tta_bench.records.record import Record
from tta_bench.report.current import recency
from tta_bench.report.grouping import grouped
from tta_bench.suites import suite as suites
from tta_bench.suites.suite import Suite


def table_of(cell: Cell) -> str:
    """The table that a cell belongs to: its suite's, or that of the paper which several suites answer together."""
    table = own_table(shipped_suite(cell))
    return table.name if table else cell.spec.suite


def shipped_suite(cell: Cell) -> Suite | None:
    """The suite of a cell if it ships with tta-bench; a user's own suite of the same name is another."""
    spec = cell.spec
    return _shipped(spec.suite, spec.data.get("kind"), spec.tasks) if _is_shipped(spec.suite) else None


def is_anothers(cell: Cell) -> bool:
    """Whether the cell's suite shares only its name with a packaged suite."""
    return baseline.is_anothers(cell.spec.suite, cell.spec.data.get("kind"), cell.spec.tasks)


_shipped = cache(baseline.shipped_suite)


@cache
def _is_shipped(name: str) -> bool:
    return name in suites.names()  # lists files: too slow for each task


def require_comparable(records: Sequence[Record]) -> None:
    """Refuse records that do not fit into one table; the message names cells and what to do."""
    tables = list(dict.fromkeys(table_of(record.cell) for record in records))
    if len(tables) > 1:
        raise UserError(f"These records belong to different tables: {', '.join(tables)}")
    for rule in RULES:
        _check(rule, records)
    _check_orders(records)


def _check(rule: Rule, records: Sequence[Record]) -> None:
    agreed: dict[Hashable, str] = {}
    for record in records:
        conditions = record.cell.conditions
        value = rule.value(conditions)
        if value is not None and agreed.setdefault(rule.scope(conditions), value) != value:
            scope = rule.scope(conditions)
            _refuse(rule, [r for r in records if rule.scope(r.cell.conditions) == scope])


def _refuse(rule: Rule, records: Sequence[Record]) -> None:
    """Say who differs, and how to rerun the minority."""
    stated = [record for record in records if rule.value(record.cell.conditions) is not None]
    found = grouped(stated, lambda record: rule.value(record.cell.conditions))
    seen = "; ".join(f"{_cells(group)}: {value}" for value, group in found.items())
    most = max(found.values(), key=lambda group: (len(group), max(map(recency, group))))
    others = dict.fromkeys(r.label for group in found.values() if group is not most for r in group)
    remedy = f"run {', '.join(others)} again {rule.remedy.format(most[0].cell.conditions)}"
    raise UserError(f"These records use different {rule.noun}: {seen}: {remedy}{_apart(rule, records)}")


def _apart(rule: Rule, records: Sequence[Record]) -> str:
    """The other remedy, where there is one: a table of each kind."""
    values = dict.fromkeys(getattr(record.cell.conditions, rule.where) for record in records) if rule.where else {}
    if len(values) < 2:
        return ""
    value = next(iter(values))
    return f", or report them separately, as with --where {rule.where}={'none' if value is None else value}"


def _check_orders(records: Sequence[Record]) -> None:
    for key, those in grouped(records, lambda record: record.cell.conditions.key).items():
        seen_by = grouped(those, lambda record: record.cell.conditions.stream[1])
        if len(seen_by) > 1:
            labels = {order: dict.fromkeys(record.label for record in seen) for order, seen in seen_by.items()}
            who = "; ".join(f"{', '.join(own)} ({order})" for order, own in labels.items())
            raise UnmatchedStreams(
                f"{key.name}, seed {key.seed}: methods saw different images or orders: {who}: "
                f"run them again together with --seeds {key.seed}"
            )


def _cells(records: Sequence[Record]) -> str:
    first, more = records[0], len(records) - 1
    return f"{first.label} on {first.cell.name}, seed {first.cell.spec.seed}" + (f" and {more} more" if more else "")
