"""Which records make which row of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from tta_bench.errors import UserError
from tta_bench.notes import Level, Note, info, warning
from tta_bench.papers.baseline import BASELINE, own_table
from tta_bench.records.cell import Cell, unequal_parts
from tta_bench.records.live import WAITS
from tta_bench.records.record import Record
from tta_bench.report.comparable import require_comparable, shipped_suite, table_of
from tta_bench.report.current import is_ahead, newest_data, newest_method, recency
from tta_bench.report.grouping import grouped
from tta_bench.static_facts import published_settings

if TYPE_CHECKING:
    from tta_bench.report.column import Column


@dataclass(frozen=True)
class Row:
    """One method with one set of settings: the records of all its tasks and seeds."""

    label: str
    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        """The record that represents the row: the first finished one, if there is any."""
        return self.done[0] if self.done else self.records[0]

    @property
    def is_source(self) -> bool:
        return self.first.cell.spec.method == BASELINE

    @cached_property
    def done(self) -> list[Record]:
        return [record for record in self.records if record.status == "done"]

    @cached_property
    def by_task(self) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = defaultdict(list)
        for record in self.records:
            for task in dict.fromkeys(record.cell.spec.tasks):
                found[task].append(record)
        return dict(found)


@dataclass(frozen=True)
class Comparison:
    """Rows that are fair to compare, their tasks in order, and what a reader must know."""

    suite: str  # the table's name: the suite's, or that of the paper's table which several suites answer
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...]
    columns: tuple[Column, ...] = ()  # of the metrics that were asked for
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # labels of other groups: the `--where` that shows them

    @cached_property
    def records(self) -> list[Record]:
        return [record for row in self.rows for record in row.records]

    @property
    def caption(self) -> str:
        """The table's name, with the options that all of its rows share, as bf16."""
        return f"{self.suite} ({mode})" if (mode := common_mode(self.records)) else self.suite

    @property
    def limit(self) -> int | None:
        """How many images of each task were used, where that cut any of them."""
        return limit_of(self.records)


def by_table(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records of several runs, sorted into the tables that they make."""
    return grouped(records, lambda record: table_of(record.cell))


def limit_of(records: Iterable[Record]) -> int | None:
    return max((record.cell.spec.limit for record in records if record.cell.spec.limit is not None), default=None)


def compare(records: Iterable[Record]) -> Comparison:
    """Gather records into rows; refuse what is not comparable and say why."""
    records, notes = _current(list(records))
    if not records:
        raise UserError("no records to report: run `tta-bench run` first")
    require_comparable(records)
    groups = list(grouped(records, lambda record: (record.label, _identity(record.cell))).values())
    rows = tuple(Row(label, tuple(group)) for label, group in zip(_labels(groups), groups, strict=True))
    _refuse_twice(rows)
    first, limit = records[0].cell, limit_of(records)
    if first.spec.scenario != "normal":
        notes.append(info(f"Scenario: {first.conditions.scenario}."))
    if first.conditions.stream_speed != WAITS:
        notes.append(info(f"Live stream: speed {first.conditions.stream_speed}."))
    if limit is not None:
        notes.append(Note(Level.NOT_REPORTABLE, f"only the first {limit} images of each task (--limit {limit})."))
    if first.data.get("allow_partial"):
        notes.append(Note(Level.NOT_REPORTABLE, "a part of the published data (allow_partial)."))
    if makers := sorted({record.cell.data["made_by"] for record in records if record.cell.data.get("made_by")}):
        notes.append(info(f"Images by {', '.join(makers)}, not the published ones."))
    notes += [*_fewer_seeds(rows), *_versions(rows), *_clocks(records)]
    return Comparison(table_of(first), _tasks(records), rows, tuple(notes))


def _tasks(records: Sequence[Record]) -> tuple[str, ...]:
    """Tasks in the order of the records; where the paper has them all, in the paper's."""
    tasks = tuple(dict.fromkeys(task for record in records for task in record.cell.spec.averaged))
    table = own_table(shipped_suite(records[0].cell))
    order = {task: rank for rank, task in enumerate(table.tasks)} if table else {}
    return tuple(sorted(tasks, key=lambda task: order[task])) if set(tasks) <= set(order) else tasks


def _current(records: list[Record]) -> tuple[list[Record], list[Note]]:
    """Leave out results on parts of a dataset where whole ones exist, and results of outdated code or data."""
    notes = []
    whole = [record for record in records if not record.cell.spec.data.get("allow_partial")]
    if whole and len(whole) < len(records):
        skipped = counted(len(records) - len(whole), "record")
        notes.append(info(f"Skipped {skipped} on a part of the published data (allow_partial)."))
    records = whole or records
    rows = [_identity(record.cell) for record in records]
    streams = [(row, *_stream(record.cell)) for row, record in zip(rows, records, strict=True)]
    method = _winners(zip(rows, records, strict=True), _method_code, newest_method)
    data = _winners(zip(streams, records, strict=True), _data_code, newest_data)
    kept = [
        record
        for row, stream, record in zip(rows, streams, records, strict=True)
        if _method_code(record.cell) == method[row] and _data_code(record.cell) == data[stream]
    ]
    if len(kept) < len(records):
        skipped = counted(len(records) - len(kept), "record")
        notes.append(info(f"Skipped {skipped}: code or data changed since they were made."))
    return kept, notes


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _winners(
    records: Iterable[tuple[Hashable, Record]],
    version: Callable[[Cell], Hashable],
    newest: Callable[[Sequence[Record]], Record],
) -> dict[Hashable, Hashable]:
    """Of each group of records, the version that counts."""
    groups: dict[Hashable, dict[Hashable, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for key, record in records:
        groups[key][version(record.cell)].append(record)
    return {
        key: next(iter(found)) if len(found) == 1 else version(newest(list(chain(*found.values()))).cell)
        for key, found in groups.items()
    }


def _identity(cell: Cell) -> Hashable:
    """What makes a row: all that a user can choose, without what belongs to a task and without versions of code."""
    conditions = cell.conditions
    return cell.spec.method, repr(sorted(cell.own_settings.items())), conditions.table, conditions.mode


def _stream(cell: Cell) -> tuple[str, str, int | None, str]:
    return cell.spec.suite, cell.name, cell.spec.limit, cell.spec.model


def _method_code(cell: Cell) -> tuple[str, str]:
    return cell.found.method_code, cell.found.harness


def _data_code(cell: Cell) -> tuple[int, str, str, str]:
    return cell.spec.suite_version, cell.found.data_code, cell.found.images, cell.found.weights


def _labels(groups: Sequence[Sequence[Record]]) -> list[str]:
    """The rows' labels; where two rows share one, with the settings in which they differ."""
    records = [max(group, key=recency) for group in groups]
    twins = grouped(records, lambda record: record.label)
    labels, everywhere = [], common_mode(records)
    for record in records:
        marks = _speed_marks(record.cell) if everywhere is None else []
        extra = [*differing(record.cell, [twin.cell for twin in twins[record.label]]), *marks]
        labels.append(f"{record.label} ({', '.join(extra)})" if extra else record.label)
    return labels


def differing(cell: Cell, others: Iterable[Cell]) -> list[str]:
    """The settings of a cell that another does not share, as in `lr=0.01`."""
    settings, base = [other.own_settings for other in others], published_settings(cell.spec.method)
    return [
        setting(key, value, base.get(key, ...))
        for key, value in cell.own_settings.items()
        if any(other.get(key) != value for other in settings)
    ]


def common_mode(records: Sequence[Record]) -> str | None:
    """The precision, compilation and other options that all records share, for a caption; None if they differ."""
    modes = {tuple(_speed_marks(record.cell)) for record in records}
    return ", ".join(modes.pop()) if len(modes) == 1 else None


def _speed_marks(cell: Cell) -> list[str]:
    """The precision, compilation and other options of a row, where they are not at their defaults."""
    words = {"amp": cell.spec.amp, "compile": "compiled"}
    return [words.get(name) or setting(name, value) for name, value in cell.spec.mode.items()]


def setting(key: str, value: Any, published: Any = ...) -> str:
    """As in `lr=0.01`; `lr=published` where the published value is None: then it depends on the model."""
    if value is published is None:
        return f"{key}=published"
    return f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"


def _fewer_seeds(rows: Sequence[Row]) -> list[Note]:
    """A warning for each row whose mean is over fewer seeds than the others'."""
    seeds = {row.label: sorted({record.cell.spec.seed for record in row.records}) for row in rows}
    most = max(seeds.values(), key=len)
    return [
        warning(f"{label} has seeds {', '.join(map(str, own))} where others have {', '.join(map(str, most))}.")
        for label, own in seeds.items()
        if own != most
    ]


def _refuse_twice(rows: Sequence[Row]) -> None:
    """Refuse two results of one row on the same stream: a mean would count it twice."""
    for row in rows:
        seen: dict[Hashable, Record] = {}
        for record in row.records:
            other = seen.setdefault(record.cell.conditions.key, record)
            if other is not record:
                parts = unequal_parts(other.cell, record.cell)
                raise UserError(
                    f"{row.label} on {record.cell.name}, seed {record.cell.spec.seed}: two results that differ in "
                    f"{' and '.join(parts) or 'nothing'}: report their folders separately"
                )


def _versions(rows: Sequence[Row]) -> list[Note]:
    """A warning if not all rows were made by the same version of the harness."""
    made = grouped(rows, lambda row: row.first.cell.found.harness)
    if len(made) < 2:
        return []
    parts = [f"{', '.join(row.label for row in those)} by {harness}" for harness, those in made.items()]
    return [warning(f"made by different versions of tta-bench: {'; '.join(parts)}.")]


def _clocks(records: Sequence[Record]) -> list[Note]:
    ahead = sum(is_ahead(record) for record in records)
    text = f"{counted(ahead, 'record')} finished in the future: the clock of that machine was wrong."
    return [warning(text)] if ahead else []
