"""Whether records may share a table: same images, order, weights and batches. If not, who must run again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tta_bench.errors import UnmatchedStreams, UserError
from tta_bench.records.cell import Cell
from tta_bench.records.record import Record
from tta_bench.suites import suite


class Rule(NamedTuple):
    """Something that all cells of a group must share, and how a command line asks for it."""

    what: str
    value: Callable[[Cell], str]
    option: Callable[[Cell], str]
    key: str = ""  # by which `--where` tells them apart


EVERYWHERE = (
    Rule("--scenario", lambda c: c.scenario, lambda c: f"with --scenario {c.scenario}", "scenario"),
    Rule(
        "--limit",
        lambda c: str(c.limit),
        lambda c: f"with --limit {c.limit}" if c.limit else "without --limit",
        "limit",
    ),
    Rule("batch size", lambda c: str(c.batch_size), lambda c: f"with --batch-size {c.batch_size}", "batch_size"),
    Rule("device", lambda c: c.device, lambda c: f"with --device {c.device}", "device"),
)
WEIGHTS = Rule("source weights", lambda c: f"{c.model} {c.weights[:12]}", lambda c: f"with --model {c.model}", "model")
IMAGES = Rule(
    "the images, their code or their description",
    lambda c: f"version {c.suite_version}, {c.data_code}, {c.images}, {json.dumps(c.data, sort_keys=True)}",
    lambda c: "with this version and the same images",
)


def table_of(cell: Cell) -> str:
    """The table that a cell belongs to: its suite's, or that of the paper which several suites answer together."""
    shipped = shipped_suite(cell)
    return shipped.paper if shipped and shipped.paper else cell.suite


def shipped_suite(cell: Cell) -> suite.Suite | None:
    """The suite of a cell if it ships with tta-bench; a user's own suite of the same name is another."""
    if cell.suite not in suite.names():
        return None
    found = suite.load(cell.suite)
    same = found.data.get("kind") == cell.data.get("kind") and set(cell.tasks) <= set(found.tasks)
    return found if same else None


def check_fair(records: Sequence[Record]) -> None:
    """Refuse records that do not fit into one table; the message names cells and the way out."""
    tables = list(dict.fromkeys(table_of(record.cell) for record in records))
    if len(tables) > 1:
        raise UserError(f"these records do not fit into one table: suite differs ({', '.join(tables)})")
    for rule in EVERYWHERE:
        _hold(rule, records)
    by_source, by_task = defaultdict(list), defaultdict(list)
    for record in records:
        by_source[_source_domain(record.cell)].append(record)
        by_task[record.cell.suite, record.cell.name].append(record)
    for group in by_source.values():
        _hold(WEIGHTS, group)
    for group in by_task.values():
        _hold(IMAGES, group)
    _hold_orders(records)


def _source_domain(cell: Cell) -> str:
    """Transfers from one domain share a source model; all other tasks share one."""
    source, to, _ = cell.name.partition("-to-")
    return source if to else ""


def _hold(rule: Rule, records: Sequence[Record]) -> None:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[rule.value(record.cell)].append(record)
    if len(found) == 1:
        return
    seen = "; ".join(f"{_cells(group)}: {value}" for value, group in found.items())
    most = max(found.values(), key=lambda group: (len(group), max(record.finished_at for record in group)))
    others = dict.fromkeys(r.label for group in found.values() if group is not most for r in group)
    raise UserError(
        f"these records do not fit into one table: {rule.what} differs ({seen}): "
        f"run {', '.join(others)} again {rule.option(most[0].cell)}{_apart(rule, records)}"
    )


def _apart(rule: Rule, records: Sequence[Record]) -> str:
    """The other way out, where one exists: a table of each kind."""
    values = {getattr(record.cell, rule.key) for record in records} if rule.key else set()
    if len(values) < 2:
        return ""
    value = getattr(records[0].cell, rule.key)
    return f", or report them apart, as with --where {rule.key}={'none' if value is None else value}"


def _hold_orders(records: Sequence[Record]) -> None:
    orders: dict[tuple[str, str, int], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        cell = record.cell
        orders[cell.suite, cell.name, cell.seed][cell.stream].append(record.label)
    for (_, name, seed), seen_by in orders.items():
        if len(seen_by) > 1:
            who = "; ".join(f"{', '.join(dict.fromkeys(labels))} ({stream})" for stream, labels in seen_by.items())
            raise UnmatchedStreams(
                f"{name}, seed {seed}: methods saw different images or orders: {who}: "
                f"run them again together with --seeds {seed}"
            )


def _cells(records: Sequence[Record]) -> str:
    first, more = records[0], len(records) - 1
    return f"{first.label} on {first.cell.name}, seed {first.cell.seed}" + (f" and {more} more" if more else "")
