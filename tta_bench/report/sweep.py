"""One suite at several speeds, batch sizes, lengths or severities: the average of each row at each value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tta_bench.errors import UserError
from tta_bench.notes import Level
from tta_bench.records.record import Record
from tta_bench.report.choose import KEYS, Filter, comparison, matching
from tta_bench.report.column import Context
from tta_bench.report.columns import columns_at
from tta_bench.report.rows import Comparison
from tta_bench.report.tables import average, is_live
from tta_bench.report.values import Table, Value, mark_best
from tta_bench.suites.suite import AXES, CHOICES

TITLES = {
    "stream_speed": "stream speed",
    "batch_size": "batch size",
    "limit": "images per stream",
    "severity": "severity",
    **{choice: f"{choice} (of the scenario)" for choice in CHOICES},
}


def _choice(word: str) -> Callable[[Record], float]:
    """The first setting of a choice in a record's composition; infinity without it."""
    written = re.compile(rf"(?:^|\+){re.escape(word)}:([\d.e+-]*\d)")

    def number(record: Record) -> float:
        found = written.search(record.cell.spec.scenario)
        return float(found[1]) if found else float("inf")

    return number


NUMBERS: dict[str, Callable[[Record], float]] = {
    "stream_speed": lambda r: r.cell.spec.live.speed if r.cell.spec.live else 0.0,
    "batch_size": lambda r: r.cell.spec.batch_size,
    "limit": lambda r: float("inf") if r.cell.spec.limit is None else r.cell.spec.limit,
    "severity": lambda r: float(r.cell.spec.data.get("severity", 0)),
    **{choice: _choice(choice) for choice in CHOICES},
}


@dataclass(frozen=True)
class Point:
    """The rows at one value of the axis."""

    value: float
    name: str  # of the value, for a column or a tick
    found: Comparison

    def average(self, label: str) -> Value:
        """The mean accuracy of a row in percent; empty if the row is not there or not done."""
        row = next((row for row in self.found.rows if row.label == label), None)
        return Value() if row is None else average(row, self.found.tasks)

    def seen(self, label: str) -> Value:
        """The share of batches that a row adapted to, in percent."""
        row = next((row for row in self.found.rows if row.label == label and row.done), None)
        return Value() if row is None else columns_at("live")[-1].of_row(row, Context(self.found))


def varying(records: Sequence[Record]) -> list[str]:
    """The axes on which records of one suite differ."""
    return [axis for axis in AXES if len({NUMBERS[axis](record) for record in records}) > 1]


def points(records: Sequence[Record], axis: str, where: Sequence[Filter] = ()) -> list[Point]:
    """One fair comparison at each value of an axis; a folder with fewer than two values is refused."""
    kept = matching(records, where)
    key = "scenario" if axis in CHOICES else axis
    values = {NUMBERS[axis](record): KEYS[key](record)[0] for record in kept}
    if len(values) < 2:
        raise UserError(f"needs records of at least two values of {axis}, found {len(values)}")
    found = [Point(value, _name(axis, value), comparison(kept, [(key, values[value])])) for value in sorted(values)]
    limits = {point.found.limit for point in found}
    if axis != "limit" and len(limits) > 1:
        raise UserError("some values were run with --limit and others without: choose with --where limit=…")
    return found


def labels(found: Sequence[Point]) -> list[str]:
    """The rows of all points, in order."""
    return list(dict.fromkeys(row.label for point in found for row in point.found.rows))


def table(found: Sequence[Point], axis: str) -> Table:
    """Rows by values; for a live stream also what each row saw."""
    live = any(is_live(point.found) for point in found)
    shown = [point for point in found if is_live(point.found)] if live else []
    rows = [
        (label, (*(point.average(label) for point in found), *(point.seen(label) for point in shown)))
        for label in labels(found)
    ]
    columns = (*(point.name for point in found), *(f"seen % at {point.name}" for point in shown))
    first = found[0].found
    title = f"{first.suite}: average accuracy (%) over {len(first.tasks)} tasks, by {TITLES[axis]}"
    notes = dict.fromkeys(note for point in found for note in point.found.notes if note.level != Level.LEFT_OUT)
    return Table(title, columns, mark_best(rows, len(found)), tuple(notes))


def _name(axis: str, value: float) -> str:
    if axis == "stream_speed" and not value:
        return "waits"
    return "all" if value == float("inf") else f"{value:g}"
