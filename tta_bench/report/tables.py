"""The accuracy table and the time table: records in, plain tables out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tta_bench.record import Record
from tta_bench.report.names import short
from tta_bench.report.rows import Comparison, Row

MISSING, FAILED = "–", "failed"


@dataclass(frozen=True)
class Value:
    """One entry: a number with its spread over seeds, or a word."""

    mean: float = math.nan
    std: float | None = None
    word: str = ""
    digits: int = 1
    best: bool = False

    def __str__(self) -> str:
        if self.word or math.isnan(self.mean):
            return self.word or MISSING
        spread = "" if self.std is None else f" ±{self.std:.{self.digits}f}"
        return f"{self.mean:.{self.digits}f}{spread}"


@dataclass(frozen=True)
class Table:
    """A title, a head, rows of values and the notes that belong under them."""

    title: str
    columns: tuple[str, ...]  # without the first, which holds the labels
    rows: tuple[tuple[str, tuple[Value, ...]], ...]
    notes: tuple[str, ...] = ()


def accuracy_table(comparison: Comparison) -> Table:
    """Top-1 accuracy in percent: methods by tasks, and the average over tasks."""
    rows = []
    for row in comparison.rows:
        per_task = [_over_seeds(row.of(task), task) for task in comparison.tasks]
        rows.append(
            (
                row.label,
                (*per_task, _average(row, comparison.tasks), Value(word=row.first.score_point or MISSING)),
            )
        )
    columns = (*(short(task) for task in comparison.tasks), "Avg.", "scored")
    notes = (*comparison.notes, *_seed_note(comparison), *_failures(comparison), *_resets(comparison))
    return Table(f"{comparison.suite}: accuracy (%)", columns, _mark_best(rows, len(columns) - 1), notes)


def by_average(table: Table) -> Table:
    """The same table, best average first."""
    column = table.columns.index("Avg.")
    return replace(table, rows=tuple(sorted(table.rows, key=lambda row: -str_mean(row[1][column]))))


def time_table(comparison: Comparison) -> Table:
    """What each method costs: time inside `adapt`, exact counts of passes, peak memory."""
    source = next((row for row in comparison.rows if row.first.cell.method == "source"), None)
    rows = [(row.label, _costs(row, source, comparison.tasks)) for row in comparison.rows]
    columns = (
        "seconds",
        "ms/image",
        "× Source",
        "forwards/image",
        "backwards/image",
        "peak MiB",
        "prepare s",
    )
    machines = {
        f"{r.environment.get('device_name')}, {r.environment.get('threads')} threads"
        for row in comparison.rows
        for r in row.records
        if r.status == "done"
    }
    notes = [
        f"Measured on {' and '.join(sorted(machines))}." if machines else "",
        "Times differ in hardware: compare forwards and backwards instead." if len(machines) > 1 else "",
        "seconds: all of `adapt`, per seed; ms/image: without each stream's first batch (warm-up).",
        *_memory_note(comparison),
    ]
    return Table(f"{comparison.suite}: time and cost", columns, tuple(rows), tuple(n for n in notes if n))


def _costs(row: Row, source: Row | None, tasks: Sequence[str]) -> tuple[Value, ...]:
    done = [record for record in row.records if record.status == "done"]
    if not done:
        return (Value(word=FAILED),) * 7
    seeds = len({record.cell.seed for record in done})
    images = sum(record.samples for record in done)
    seconds = sum(record.seconds["adapt"] for record in done) / seeds
    ms = _steady_ms(done)
    paired = _paired(done, source.records) if source else []
    times_source = (
        Value(_steady_ms([a for a, _ in paired]) / _steady_ms([b for _, b in paired]), digits=2) if paired else Value()
    )
    return (
        Value(seconds, digits=1),
        Value(ms, digits=2),
        times_source,
        Value(sum(record.sample_forwards for record in done) / images, digits=2),
        Value(sum(record.sample_backwards for record in done) / images, digits=2),
        Value(max(record.memory.get("bytes", 0) for record in done) / 2**20, digits=0),
        Value(sum(record.seconds["prepare"] for record in done) / len(done), digits=2),
    )


def _steady_ms(records: Sequence[Record]) -> float:
    return statistics.fmean(record.steady_ms_per_image for record in records)


def _paired(records: Sequence[Record], others: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Records and Source's on the same streams, so that a failed task does not tilt the ratio."""
    by_stream = {(o.cell.name, o.cell.seed): o for o in others if o.status == "done"}
    pairs = ((r, by_stream.get((r.cell.name, r.cell.seed))) for r in records)
    return [(record, other) for record, other in pairs if other is not None]


def _over_seeds(records: Sequence[Record], task: str) -> Value:
    """Accuracy: mean and sample standard deviation over seeds; one failed seed fails the entry."""
    if any(record.status != "done" for record in records):
        return Value(word=FAILED)
    return _spread([100 * record.task_top1[task] for record in records if task in record.task_top1])


def _average(row: Row, tasks: Sequence[str]) -> Value:
    """The mean over tasks for each seed, then over seeds; only where every task is there."""
    per_seed: dict[int, list[float]] = {}
    for record in row.records:
        if record.status == "done":
            per_seed.setdefault(record.cell.seed, []).extend(100 * top1 for top1 in record.task_top1.values())
    complete = [statistics.fmean(scores) for scores in per_seed.values() if len(scores) == len(tasks)]
    return _spread(complete) if len(complete) == len(per_seed) else Value()


def _spread(scores: Sequence[float]) -> Value:
    if not scores:
        return Value()
    return Value(statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else None)


def _mark_best(
    rows: list[tuple[str, tuple[Value, ...]]], scored_columns: int
) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    """Mark the highest value of each column as it is printed: what looks equal is equally best."""
    marked = []
    best = [max((str_mean(values[i]) for _, values in rows), default=-math.inf) for i in range(scored_columns)]
    for label, values in rows:
        new = [
            Value(v.mean, v.std, v.word, v.digits, best=str_mean(v) == best[i] > -math.inf) if i < scored_columns else v
            for i, v in enumerate(values)
        ]
        marked.append((label, tuple(new)))
    return tuple(marked)


def str_mean(value: Value) -> float:
    """The mean as printed; words rank last."""
    return -math.inf if value.word or math.isnan(value.mean) else round(value.mean, value.digits)


def _seed_note(comparison: Comparison) -> list[str]:
    seeds = sorted({record.cell.seed for row in comparison.rows for record in row.records})
    if len(seeds) == 1:
        return [f"Seed {seeds[0]}."]
    return [f"Mean ± standard deviation over seeds {', '.join(map(str, seeds))}."]


def _failures(comparison: Comparison) -> list[str]:
    return [
        f"FAILED {row.label} on {record.cell.name}, seed {record.cell.seed}: {record.reason}"
        for row in comparison.rows
        for record in row.records
        if record.status != "done"
    ]


def _resets(comparison: Comparison) -> list[str]:
    counts = {row.label: sum(record.resets for record in row.records) for row in comparison.rows}
    told = [f"{label} {count}" for label, count in counts.items() if count]
    return [f"Falls back to source weights by the method itself: {', '.join(told)}."] if told else []


def _memory_note(comparison: Comparison) -> list[str]:
    measures = {r.memory.get("measure", "") for row in comparison.rows for r in row.records} - {""}
    return [f"peak MiB: {' / '.join(sorted(measures))}."] if measures else []
