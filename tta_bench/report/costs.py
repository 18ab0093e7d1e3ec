"""The time table: what each method costs, in seconds and in exact counts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tta_bench.record import Record
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.values import FAILED, Table, Value

COLUMNS = ("seconds", "ms/image", "× Source", "forwards/image", "backwards/image", "peak MiB", "prepare s")


def time_table(comparison: Comparison) -> Table:
    """What each method costs: time inside `adapt`, exact counts of passes, peak memory."""
    source = next((row for row in comparison.rows if row.first.cell.method == "source"), None)
    rows = tuple((row.label, _costs(row, source)) for row in comparison.rows)
    machines = machines_of(comparison)
    notes = [
        f"Measured on {' and '.join(machines)}." if machines else "",
        "Times differ in hardware: compare forwards and backwards instead." if len(machines) > 1 else "",
        "seconds: all of `adapt`, per seed; ms/image: without each stream's first batch (warm-up).",
        *_memory_note(comparison),
    ]
    return Table(f"{comparison.suite}: time and cost", COLUMNS, rows, tuple(note for note in notes if note))


def machines_of(comparison: Comparison) -> list[str]:
    """The hardware that did the work, each once."""
    done = [record.environment for record in comparison.records if record.status == "done"]
    return sorted({f"{there.get('device_name')}, {there.get('threads')} threads" for there in done})


def seconds_per_seed(records: Sequence[Record]) -> float:
    return sum(record.seconds["adapt"] for record in records) / len({record.cell.seed for record in records})


def steady_ms(records: Sequence[Record]) -> float:
    """Milliseconds of `adapt` per image, without each stream's first batch."""
    return statistics.fmean(record.steady_ms_per_image for record in records)


def _costs(row: Row, source: Row | None) -> tuple[Value, ...]:
    done = row.done
    if not done:
        return (Value(word=FAILED),) * len(COLUMNS)
    images = sum(record.samples for record in done)
    pairs = _paired(done, source.done) if source else []
    slower = steady_ms([own for own, _ in pairs]) / steady_ms([other for _, other in pairs]) if pairs else None
    return (
        Value(seconds_per_seed(done), digits=1),
        Value(steady_ms(done), digits=2),
        Value() if slower is None else Value(slower, digits=2),
        Value(sum(record.sample_forwards for record in done) / images, digits=2),
        Value(sum(record.sample_backwards for record in done) / images, digits=2),
        Value(max(record.memory.get("bytes", 0) for record in done) / 2**20, digits=0),
        Value(sum(record.seconds["prepare"] for record in done) / len(done), digits=2),
    )


def _paired(records: Sequence[Record], others: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Records and Source's on the same streams, so that a failed task does not tilt the ratio."""
    by_stream = {(o.cell.suite, o.cell.name, o.cell.seed): o for o in others}
    pairs = ((r, by_stream.get((r.cell.suite, r.cell.name, r.cell.seed))) for r in records)
    return [(record, other) for record, other in pairs if other is not None]


def _memory_note(comparison: Comparison) -> list[str]:
    measures = {record.memory.get("measure", "") for record in comparison.records} - {""}
    return [f"peak MiB: {' / '.join(sorted(measures))}."] if measures else []
