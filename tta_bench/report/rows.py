"""Which records make which row of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tta_bench.errors import UserError
from tta_bench.papers.published import accuracies, paper_task
from tta_bench.records.cell import Cell
from tta_bench.records.record import Record
from tta_bench.report.fair import check_fair, table_of


@dataclass(frozen=True)
class Row:
    """One method with one set of settings: the records of all its tasks and seeds."""

    label: str
    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        """A record that speaks for all: the first that is done, if any is."""
        return next((record for record in self.records if record.status == "done"), self.records[0])

    @property
    def done(self) -> list[Record]:
        return [record for record in self.records if record.status == "done"]

    def of(self, task: str) -> list[Record]:
        return [record for record in self.records if task in record.cell.tasks]


@dataclass(frozen=True)
class Comparison:
    """Rows that are fair to compare, their tasks in order, and what a reader must know."""

    suite: str  # the table's name: the suite's, or that of the paper's table which several suites answer
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def records(self) -> list[Record]:
        return [record for row in self.rows for record in row.records]


def by_table(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records of several runs, sorted into the tables that they make."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[table_of(record.cell)].append(record)
    return dict(found)


def compare(records: Iterable[Record]) -> Comparison:
    """Gather records into rows; refuse what is not comparable and say why."""
    records, notes = _current(list(records))
    if not records:
        raise UserError("no records to report: run `tta-bench run` first")
    check_fair(records)
    by_row: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_row[record.label, _identity(record.cell)].append(record)
    groups = list(by_row.values())
    rows = tuple(Row(label, tuple(group)) for label, group in zip(_labels(groups), groups, strict=True))
    scenario, limit = records[0].cell.scenario, records[0].cell.limit
    if scenario != "normal":
        notes.append(f"Scenario: {scenario}.")
    if limit is not None:
        notes.append(f"NOT REPORTABLE: only the first {limit} images of each task (--limit {limit}).")
    if records[0].cell.data.get("allow_partial"):
        notes.append("NOT REPORTABLE: a part of the published data (allow_partial).")
    notes += _fewer_seeds(rows)
    return Comparison(table_of(records[0].cell), _tasks(records), rows, tuple(notes))


def _tasks(records: Sequence[Record]) -> tuple[str, ...]:
    """Tasks in the order of the records; where the paper has them all, in the paper's."""
    tasks = tuple(dict.fromkeys(task for record in records for task in record.cell.tasks))
    paper = list(dict.fromkeys(task for _, task in accuracies(table_of(records[0].cell))))
    if all(paper_task(task) in paper for task in tasks):
        return tuple(sorted(tasks, key=lambda task: paper.index(paper_task(task))))
    return tasks


def _current(records: list[Record]) -> tuple[list[Record], list[str]]:
    """Leave out parts of streams where whole ones are there, and results of code that has changed since."""
    notes = []
    whole = [record for record in records if record.reportable]
    if whole and len(whole) < len(records):
        notes.append(f"{len(records) - len(whole)} records made with --limit are left out.")
    records = whole or records
    method: dict[str, Record] = {}
    data: dict[tuple[str, str, str, str], Record] = {}
    for record in records:
        _keep_newest(method, _identity(record.cell), record)
        _keep_newest(data, _place(record.cell), record)
    kept = [
        record
        for record in records
        if _method_code(record.cell) == _method_code(method[_identity(record.cell)].cell)
        and _data_code(record.cell) == _data_code(data[_place(record.cell)].cell)
    ]
    if len(kept) < len(records):
        notes.append(f"{len(records) - len(kept)} older records of since changed code or data are left out.")
    return kept, notes


def _keep_newest(found: dict[Any, Record], key: Any, record: Record) -> None:
    if key not in found or record.finished_at >= found[key].finished_at:
        found[key] = record


def _identity(cell: Cell) -> str:
    """What makes a row: all that a user can choose, without what belongs to a task and without versions of code."""
    chosen = (cell.method, sorted(cell.own_settings.items()), cell.batch_size, cell.limit)
    return repr((*chosen, cell.device, cell.scenario, cell.amp, cell.compile))


def _place(cell: Cell) -> tuple[str, str, str, str]:
    return _identity(cell), cell.suite, cell.name, cell.model


def _method_code(cell: Cell) -> tuple[str, str]:
    return cell.method_code, cell.harness


def _data_code(cell: Cell) -> tuple[int, str, str, str]:
    return cell.suite_version, cell.data_code, cell.images, cell.weights


def _labels(groups: Sequence[Sequence[Record]]) -> list[str]:
    """The rows' labels; where two rows share one, with the settings in which they differ."""
    records = [max(group, key=lambda record: record.finished_at) for group in groups]
    labels = []
    for record in records:
        twins = [other.cell for other in records if other.label == record.label]
        extra = [*differing(record.cell, twins), *_speed_marks(record.cell)]
        labels.append(f"{record.label} ({', '.join(extra)})" if extra else record.label)
    return labels


def differing(cell: Cell, others: Iterable[Cell]) -> list[str]:
    """The settings of a cell that another does not share, as in `lr=0.01`."""
    own, settings = cell.own_settings, [other.own_settings for other in others]
    return [f"{key}={_word(own[key])}" for key in own if any(other.get(key) != own[key] for other in settings)]


def _speed_marks(cell: Cell) -> list[str]:
    """What makes a row's times and numbers other than those of the plain run."""
    return [*([cell.amp] if cell.amp else []), *(["compiled"] if cell.compile else [])]


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fewer_seeds(rows: Sequence[Row]) -> list[str]:
    """A mean over fewer seeds stands beside the others, but not in silence."""
    seeds = {row.label: sorted({record.cell.seed for record in row.records}) for row in rows}
    most = max(seeds.values(), key=len)
    return [
        f"WARNING {label} has seeds {', '.join(map(str, own))} where others have {', '.join(map(str, most))}."
        for label, own in seeds.items()
        if own != most
    ]
