"""Which records make which row of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tta_bench.errors import UserError
from tta_bench.papers.answers import own_table
from tta_bench.records.cell import Cell
from tta_bench.records.record import Record
from tta_bench.report.fair import check_fair, shipped_suite, table_of


@dataclass(frozen=True)
class Row:
    """One method with one set of settings: the records of all its tasks and seeds."""

    label: str
    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        """The record that represents the row: the first finished one, if there is any."""
        return self.done[0] if self.done else self.records[0]

    @cached_property
    def done(self) -> list[Record]:
        return [record for record in self.records if record.status == "done"]

    @cached_property
    def by_task(self) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = defaultdict(list)
        for record in self.records:
            for task in dict.fromkeys(record.cell.tasks):
                found[task].append(record)
        return dict(found)


@dataclass(frozen=True)
class Comparison:
    """Rows that are fair to compare, their tasks in order, and what a reader must know."""

    suite: str  # the table's name: the suite's, or that of the paper's table which several suites answer
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @cached_property
    def records(self) -> list[Record]:
        return [record for row in self.rows for record in row.records]

    @property
    def limit(self) -> int | None:
        """How many images of each task were used, where that cut any of them."""
        return limit_of(self.records)


def by_table(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records of several runs, sorted into the tables that they make."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[table_of(record.cell)].append(record)
    return dict(found)


def limit_of(records: Iterable[Record]) -> int | None:
    return max((record.cell.limit for record in records if record.cell.limit is not None), default=None)


def compare(records: Iterable[Record]) -> Comparison:
    """Gather records into rows; refuse what is not comparable and say why."""
    records, notes = _current(list(records))
    if not records:
        raise UserError("no records to report: run `tta-bench run` first")
    check_fair(records)
    by_row: dict[Hashable, list[Record]] = defaultdict(list)
    for record in records:
        by_row[record.label, _identity(record.cell)].append(record)
    groups = list(by_row.values())
    rows = tuple(Row(label, tuple(group)) for label, group in zip(_labels(groups), groups, strict=True))
    first, limit = records[0].cell, limit_of(records)
    if first.scenario != "normal":
        notes.append(f"Scenario: {first.conditions.scenario}.")
    if limit is not None:
        notes.append(f"NOT REPORTABLE: only the first {limit} images of each task (--limit {limit}).")
    if first.data.get("allow_partial"):
        notes.append("NOT REPORTABLE: a part of the published data (allow_partial).")
    notes += _fewer_seeds(rows)
    return Comparison(table_of(first), _tasks(records), rows, tuple(notes))


def _tasks(records: Sequence[Record]) -> tuple[str, ...]:
    """Tasks in the order of the records; where the paper has them all, in the paper's."""
    tasks = tuple(dict.fromkeys(task for record in records for task in record.cell.tasks))
    table = own_table(shipped_suite(records[0].cell))
    order = {task: place for place, task in enumerate(table.tasks)} if table else {}
    return tuple(sorted(tasks, key=lambda task: order[task])) if set(tasks) <= set(order) else tasks


def _current(records: list[Record]) -> tuple[list[Record], list[str]]:
    """Leave out results on parts of a dataset where whole ones exist, and results of outdated code or data."""
    notes = []
    whole = [record for record in records if not record.cell.data.get("allow_partial")]
    if whole and len(whole) < len(records):
        notes.append(f"Skipped {_count(len(records) - len(whole))} on a part of the published data (allow_partial).")
    records = whole or records
    rows = [_identity(record.cell) for record in records]
    places = [(row, *_place(record.cell)) for row, record in zip(rows, records, strict=True)]
    method: dict[Hashable, Record] = {}
    data: dict[Hashable, Record] = {}
    for row, place, record in zip(rows, places, records, strict=True):
        _keep_newest(method, row, record)
        _keep_newest(data, place, record)
    kept = [
        record
        for row, place, record in zip(rows, places, records, strict=True)
        if _method_code(record.cell) == _method_code(method[row].cell)
        and _data_code(record.cell) == _data_code(data[place].cell)
    ]
    if len(kept) < len(records):
        notes.append(f"Skipped {_count(len(records) - len(kept))}: code or data changed since they were made.")
    return kept, notes


def _count(records: int) -> str:
    return f"{records} record" if records == 1 else f"{records} records"


def _keep_newest(found: dict[Hashable, Record], key: Hashable, record: Record) -> None:
    if key not in found or record.finished_at >= found[key].finished_at:
        found[key] = record


def _identity(cell: Cell) -> Hashable:
    """What makes a row: all that a user can choose, without what belongs to a task and without versions of code."""
    conditions = cell.conditions
    return cell.method, repr(sorted(cell.own_settings.items())), conditions.table, conditions.mode


def _place(cell: Cell) -> tuple[str, str, int | None, str]:
    return cell.suite, cell.name, cell.limit, cell.model


def _method_code(cell: Cell) -> tuple[str, str]:
    return cell.method_code, cell.harness


def _data_code(cell: Cell) -> tuple[int, str, str, str]:
    return cell.suite_version, cell.data_code, cell.images, cell.weights


def _labels(groups: Sequence[Sequence[Record]]) -> list[str]:
    """The rows' labels; where two rows share one, with the settings in which they differ."""
    records = [max(group, key=lambda record: record.finished_at) for group in groups]
    twins: dict[str, list[Cell]] = defaultdict(list)
    for record in records:
        twins[record.label].append(record.cell)
    labels = []
    for record in records:
        extra = [*differing(record.cell, twins[record.label]), *_speed_marks(record.cell)]
        labels.append(f"{record.label} ({', '.join(extra)})" if extra else record.label)
    return labels


def differing(cell: Cell, others: Iterable[Cell]) -> list[str]:
    """The settings of a cell that another does not share, as in `lr=0.01`."""
    own, settings = cell.own_settings, [other.own_settings for other in others]
    return [f"{key}={_word(own[key])}" for key in own if any(other.get(key) != own[key] for other in settings)]


def _speed_marks(cell: Cell) -> list[str]:
    """The precision and compilation of a row, where they are not the plain ones."""
    return [*([cell.amp] if cell.amp else []), *(["compiled"] if cell.compile else [])]


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fewer_seeds(rows: Sequence[Row]) -> list[str]:
    """A warning for each row whose mean is over fewer seeds than the others'."""
    seeds = {row.label: sorted({record.cell.seed for record in row.records}) for row in rows}
    most = max(seeds.values(), key=len)
    return [
        f"WARNING {label} has seeds {', '.join(map(str, own))} where others have {', '.join(map(str, most))}."
        for label, own in seeds.items()
        if own != most
    ]
