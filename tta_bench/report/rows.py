"""Which records make which row, and whether the rows may stand in one table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tta_bench.cell import Cell
from tta_bench.errors import UnmatchedStreams, UserError
from tta_bench.record import Record


@dataclass(frozen=True)
class Row:
    """One method with one set of settings: the records of all its tasks and seeds."""

    label: str
    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        return self.records[0]

    def of(self, task: str) -> list[Record]:
        return [record for record in self.records if task in record.cell.tasks]


@dataclass(frozen=True)
class Comparison:
    """Rows that are fair to compare, their tasks in order, and what a reader must know."""

    suite: str
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def compare(records: Iterable[Record]) -> Comparison:
    """Gather records into rows; refuse what is not comparable and say why."""
    records, notes = _current(list(records))
    if not records:
        raise UserError("no records to report: run `tta-bench run` first")
    check_fair(records)
    variants: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        variants[record.cell.variant].append(record)
    groups = list(variants.values())
    rows = tuple(Row(label, tuple(group)) for label, group in zip(_labels(groups), groups, strict=True))
    tasks = tuple(dict.fromkeys(task for record in records for task in record.cell.tasks))
    scenario, limit = records[0].cell.scenario, records[0].cell.limit
    if scenario != "normal":
        notes.append(f"Scenario: {scenario}.")
    if limit is not None:
        notes.append(f"NOT REPORTABLE: only the first {limit} images of each stream (--limit {limit}).")
    return Comparison(records[0].cell.suite, tasks, rows, tuple(notes))


def check_fair(records: Sequence[Record]) -> None:
    """All rows must have seen the same images in the same order, with the same weights and batch size."""
    for what, value in (
        ("suite", lambda r: r.cell.suite),
        ("--scenario", lambda r: r.cell.scenario),
        ("--limit", lambda r: r.cell.limit),
        ("source weights", lambda r: f"{r.cell.model} {r.cell.weights}"),
        ("batch size", lambda r: r.cell.batch_size),
        ("device", lambda r: r.cell.device),
    ):
        found = {str(value(record)): record.cell.method for record in records}
        if len(found) > 1:
            seen = "; ".join(f"{method}: {name}" for name, method in found.items())
            raise UserError(f"these records do not fit into one table: {what} differs ({seen}): report them apart")
    orders: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for record in records:
        orders[record.cell.name, record.cell.seed][record.cell.stream] = record.cell.method
    for (name, seed), seen_by in orders.items():
        if len(seen_by) > 1:
            who = ", ".join(f"{method} ({digest})" for digest, method in seen_by.items())
            raise UnmatchedStreams(
                f"{name}, seed {seed}: methods saw different images or orders: {who}: run them again together"
            )


def _current(records: list[Record]) -> tuple[list[Record], list[str]]:
    """Leave out parts of streams where whole ones are there, and results of code that has changed since."""
    notes = []
    whole = [record for record in records if record.reportable]
    if whole and len(whole) < len(records):
        notes.append(f"{len(records) - len(whole)} records made with --limit are left out.")
    records = whole or records
    newest: dict[str, Record] = {}
    for record in records:
        same = newest.get(_same_settings(record))
        if same is None or record.finished_at >= same.finished_at:
            newest[_same_settings(record)] = record
    kept = [r for r in records if r.cell.variant == newest[_same_settings(r)].cell.variant]
    if len(kept) < len(records):
        notes.append(f"{len(records) - len(kept)} older records of since changed code or data are left out.")
    return kept, notes


def _same_settings(record: Record) -> str:
    cell = record.cell
    shown = (
        cell.method,
        sorted(cell.own_settings.items()),
        cell.batch_size,
        cell.limit,
        cell.model,
        cell.device,
        cell.scenario,
        cell.amp,
        cell.compile,
    )
    return repr(shown)


def _labels(groups: Sequence[Sequence[Record]]) -> list[str]:
    """The rows' labels; where two rows share one, with the settings in which they differ."""
    records = [max(group, key=lambda record: record.finished_at) for group in groups]
    labels = []
    for record in records:
        own = record.cell.own_settings
        twins = [other.cell.own_settings for other in records if other.label == record.label]
        differing = [key for key in own if any(other.get(key) != own[key] for other in twins)]
        extra = [*(f"{key}={_word(own[key])}" for key in differing), *_speed_marks(record.cell)]
        labels.append(f"{record.label} ({', '.join(extra)})" if extra else record.label)
    return labels


def _speed_marks(cell: Cell) -> list[str]:
    """What makes a row's times and numbers other than those of the plain run."""
    return [*([cell.amp] if cell.amp else []), *(["compiled"] if cell.compile else [])]


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
