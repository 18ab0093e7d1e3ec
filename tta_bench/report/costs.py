"""The time table: what each method costs, in seconds and in exact counts."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from tta_bench.records.conditions import StreamKey, TimeConditions
from tta_bench.records.record import Record
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.values import FAILED, Table, Value

IMAGES = 50_000  # of ImageNet's validation set, and of most published time tables
MIXED = "Times were measured under different conditions"
COLUMNS = ("seconds", "ms/image", "× Source", "min/50k", "forwards/image", "backwards/image", "peak MiB", "prepare s")


def time_table(comparison: Comparison) -> Table:
    """What each method costs: time inside `adapt`, exact counts of passes, peak memory."""
    source = [record for row in comparison.rows if row.first.cell.method == "source" for record in row.done]
    rows = tuple((row.label, _costs(row, source)) for row in comparison.rows)
    machines = machines_of(comparison)
    notes = [
        f"Measured on {' and '.join(machines)}." if machines else "",
        f"{MIXED}: compare forwards and backwards instead." if len(machines) > 1 else "",
        f"seconds: all of `adapt`, per seed; {_steady_note(comparison)}",
        extrapolated(comparison),
        *_memory_note(comparison),
    ]
    return Table(f"{comparison.suite}: time and cost", COLUMNS, rows, tuple(note for note in notes if note))


def machines_of(comparison: Comparison) -> list[str]:
    """What the times were measured on, each once: the hardware, and what else differs."""
    machines = sorted(
        {TimeConditions.of(record.environment) for record in comparison.records if record.status == "done"}
    )
    torches, spins = ({getattr(machine, name) for machine in machines} for name in ("torch", "spin_count"))
    return [
        ", ".join(
            [
                machine.device_name,
                f"{machine.threads} thread{'s'[: machine.threads != 1]}",
                *([f"torch {machine.torch}"] if len(torches) > 1 else []),
                *([f"GOMP_SPINCOUNT {machine.spin_count or 'not set'}"] if len(spins) > 1 else []),
            ]
        )
        for machine in machines
    ]


def _steady_note(comparison: Comparison) -> str:
    """What ms/image means for these streams: a stream of one batch has nothing but its warm-up."""
    short = [len(record.batch_seconds) < 2 for record in comparison.records if record.status == "done"]
    if short and all(short):
        return "ms/image: of the streams' only batch, warm-up included."
    alone = "; streams of one batch count with their warm-up" if any(short) else ""
    return f"ms/image: without each stream's first batch (warm-up){alone}."


def seconds_per_seed(records: Sequence[Record]) -> float:
    return sum(record.seconds["adapt"] for record in records) / len({record.cell.seed for record in records})


def steady_ms(records: Sequence[Record]) -> float:
    """Milliseconds of `adapt` per image, without each stream's first batch."""
    return statistics.fmean(record.steady_ms_per_image for record in records)


def minutes(records: Sequence[Record], images: int = IMAGES) -> float:
    """Minutes of `adapt` for so many images, at the steady pace of these records."""
    return steady_ms(records) * images / 60_000


def minutes_name(images: int = IMAGES) -> str:
    """The column of `minutes`, as in min/50k."""
    return f"min/{images / 1000:g}k"


def extrapolated(comparison: Comparison, images: int = IMAGES) -> str:
    """From how many images `minutes` is extrapolated."""
    counts = sorted({sum(record.samples for record in row.done) for row in comparison.rows if row.done})
    if not counts:
        return ""
    many = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return (
        f"{minutes_name(images)}: minutes of `adapt` for {images:,} images, "
        f"extrapolated from ms/image of {many} images per method."
    )


def _costs(row: Row, source: Sequence[Record]) -> tuple[Value, ...]:
    done = row.done
    if not done:
        return (Value(word=FAILED),) * len(COLUMNS)
    images = sum(record.samples for record in done)
    slower = times_other(paired(done, source))
    if source and slower is None:  # no stream in common, but the same model and batch size
        slower = steady_ms(done) / steady_ms(source)
    return (
        Value(seconds_per_seed(done), digits=1),
        Value(steady_ms(done), digits=2),
        Value() if slower is None else Value(slower, digits=2),
        Value(minutes(done), digits=2),
        Value(sum(record.sample_forwards for record in done) / images, digits=2),
        Value(sum(record.sample_backwards for record in done) / images, digits=2),
        Value(max(record.memory.get("bytes", 0) for record in done) / 2**20, digits=0),
        Value(sum(record.seconds["prepare"] for record in done) / len(done), digits=2),
    )


def paired(records: Sequence[Record], others: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Records of two rows on the same streams, so that a failed task does not distort their ratio.

    Where the others ran in several modes (bf16, compiled), the record's own mode comes first.
    """
    by_stream: dict[StreamKey, list[Record]] = defaultdict(list)
    for other in others:
        by_stream[other.cell.conditions.key].append(other)
    found = []
    for record in records:
        those, mode = by_stream[record.cell.conditions.key], record.cell.conditions.mode
        if those:
            found.append((record, next((other for other in those if other.cell.conditions.mode == mode), those[0])))
    return found


def times_other(pairs: Sequence[tuple[Record, Record]]) -> float | None:
    """Steady time per image of the first of each pair as a multiple of the second's; None without pairs."""
    return steady_ms([own for own, _ in pairs]) / steady_ms([other for _, other in pairs]) if pairs else None


def _memory_note(comparison: Comparison) -> list[str]:
    measures = {
        f"{r.memory['measure']}, while adapting" if memory_is_of_adapting(r) else r.memory["measure"]
        for r in comparison.records
        if r.memory.get("measure")
    }
    return [f"peak MiB: {' / '.join(sorted(measures))}."] if measures else []


def memory_is_of_adapting(record: Record) -> bool:
    """Whether the peak leaves out `prepare`: some systems cannot reset it, so there it covers the whole run."""
    return "prepare_bytes" in record.memory and "whole run" not in record.memory["measure"]
