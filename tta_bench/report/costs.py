"""What each method costs in time, on machines that can be compared."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace

from tta_bench.errors import some
from tta_bench.notes import Note, info, warning
from tta_bench.records.conditions import TimeConditions
from tta_bench.records.record import Record
from tta_bench.report.column import Context
from tta_bench.report.grouping import grouped
from tta_bench.report.rows import Comparison, Row, counted
from tta_bench.streams.axes.domains import Remember
from tta_bench.streams.composition import compose

IMAGES = 50_000  # of ImageNet's validation set, and of most published time tables
MIXED = "Times were measured under different conditions"
LEAST_TIME = 0.9  # × Source, of a row with as many forwards; what is below is noise of the machine
TIMES = frozenset({"times_source", "ms_per_image"})  # columns that compare times
SLOW_TIMES, SLOW_SECONDS = 5.0, 1.0  # a first batch is noted if it takes so many times the median, and so much more


def time_notes(comparison: Comparison) -> tuple[Note, ...]:
    """What the time table's numbers were measured on, and mean."""
    timed = with_comparable_times(comparison)
    return (
        *(info(f"Measured on {machine}.") for machine in machines_of(timed)),
        *_left_out(comparison, timed),
        info(f"seconds: all of `adapt`, per seed; {_steady_note(timed)}"),
        *_slow_note(timed),
        *contradiction_note(timed),
        *extrapolated(timed),
        *_memory_note(comparison),
    )


def with_comparable_times(comparison: Comparison) -> Comparison:
    """The rows without records whose times cannot be compared with the others'.

    Of several machines, the one with the most rows counts; then an unshared one, then the one with the most records.
    """
    groups = _by_machine(comparison)
    if len(groups) < 2:
        return comparison
    rows = {one: {label for label, _ in group} for one, group in groups.items()}
    best = max(sorted(groups), key=lambda group: (len(rows[group]), not group.shared, len(groups[group])))
    kept = {record.cell.key for _, record in groups[best]}
    found = [Row(row.label, tuple(r for r in row.records if r.cell.key in kept)) for row in comparison.rows]
    return replace(comparison, rows=tuple(row for row in found if row.records))


def _by_machine(comparison: Comparison) -> dict[TimeConditions, list[tuple[str, Record]]]:
    """The finished records with their rows' labels, by what they were timed on."""
    done = [(row.label, record) for row in comparison.rows for record in row.done]
    return grouped(done, lambda pair: pair[1].time_conditions)


def machines_of(comparison: Comparison) -> list[str]:
    """What the times were measured on, each once: the hardware, and what else differs."""
    found = _by_machine(comparison)
    return [_machine(one, found) for one in sorted(found)]


def _machine(one: TimeConditions, among: Collection[TimeConditions]) -> str:
    torches, spins = ({getattr(other, name) for other in among} for name in ("torch", "spin_count"))
    return ", ".join(
        [
            one.device_name,
            counted(one.threads, "thread"),
            *([f"torch {one.torch}"] if len(torches) > 1 else []),
            *([f"GOMP_SPINCOUNT {one.spin_count or 'not set'}"] if len(spins) > 1 else []),
            *(["shared with other jobs"] if one.shared else []),
        ]
    )


def _left_out(comparison: Comparison, timed: Comparison) -> list[Note]:
    """Which cells the time columns leave out, by the machine that they ran on."""
    kept = {record.cell.key for record in timed.records}
    found, notes = _by_machine(comparison), []
    for one in sorted(found):
        left = [(label, record.cell) for label, record in found[one] if record.cell.key not in kept]
        names = [f"{label} on {cell.name}, seed {cell.spec.seed}" for label, cell in left]
        where = f"{counted(len(left), 'cell')} measured on {_machine(one, found)}"
        notes += [info(f"Left out of times, {where}: {some(names, separator='; ')}.")] if left else []
    return notes


def _steady_note(comparison: Comparison) -> str:
    """What ms/image means for these streams: a stream of one batch has nothing but its warm-up."""
    short = [len(record.measured.batch_seconds) < 2 for record in comparison.records if record.status == "done"]
    if short and all(short):
        return "ms/image: of the streams' only batch, warm-up included."
    alone = "; streams of one batch count with their warm-up" if any(short) else ""
    return f"ms/image: without each stream's first batch (warm-up){alone}."


def slow_first_batch(record: Record) -> float | None:
    """How many times the median of the others a stream's first batch took, if that is far more; else None.

    ms/image hides a compiler, a cache that fills, or work deferred outside the timed batches.
    """
    first, *others = [seconds for seconds in record.measured.batch_seconds if seconds] or [0.0]  # 0: only predicted
    usual = statistics.median(others) if others else math.inf
    is_slow = first > SLOW_TIMES * usual and first - usual > SLOW_SECONDS
    return first / max(usual, 1e-6) if is_slow else None


def _slow_note(comparison: Comparison) -> list[Note]:
    """Rows whose first batch is far slower than the others, each with its worst stream."""
    found = []
    for row in comparison.rows:
        times = {slow: record for record in row.done if (slow := slow_first_batch(record)) is not None}
        if times:
            worst = times[max(times)]
            seconds = worst.measured.batch_seconds[0]
            found.append(f"{row.label} {seconds:.1f} s on {worst.cell.name}, {max(times):.0f} times")
    text = f"first batch far slower than the others, and left out of ms/image: {'; '.join(found)} their median."
    return [warning(text)] if found else []


def steady_ms(records: Sequence[Record]) -> float:
    """Milliseconds of `adapt` per image, without each stream's first batch."""
    return statistics.fmean(record.steady_ms_per_image for record in records)


def minutes(records: Sequence[Record], images: int = IMAGES) -> float:
    """Minutes of `adapt` for so many images, at the steady pace of these records."""
    return steady_ms(records) * images / 60_000


def images_of(record: Record) -> int:
    """The images of a stream that costs are per image of: all but a probe's, whose batches are never adapted to."""
    samples, spec, adapted = record.scores.samples, record.cell.spec, record.measured.adapted_batches
    if adapted is None or spec.live is not None or "remember" not in spec.scenario:
        return samples
    size = next(choice.images for choice in compose(spec.scenario).choices if isinstance(choice, Remember))
    predicted = len(record.measured.batch_seconds) - len(adapted)
    return samples - size * predicted // math.ceil(size / spec.batch_size)


def minutes_name(images: int = IMAGES) -> str:
    """The column of `minutes`, as in min/50k."""
    return f"min/{images / 1000:g}k"


def extrapolated(comparison: Comparison, images: int = IMAGES) -> list[Note]:
    """From how many images `minutes` is extrapolated."""
    counts = sorted({sum(map(images_of, row.done)) for row in comparison.rows if row.done})
    if not counts:
        return []
    many = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    text = f"{minutes_name(images)}: minutes of `adapt` for {images:,} images, extrapolated from ms/image of {many}"
    return [info(f"{text} images per method.")]


def seconds_of(row: Row, context: Context) -> float | None:
    """Seconds per seed, if all of a row's streams were timed: not of some alone."""
    timed = context.timed.get(row.label, [])
    seeds = {record.cell.spec.seed for record in timed}
    return sum(r.measured.seconds["adapt"] for r in timed) / len(seeds) if len(timed) == len(row.done) else None


def steady_of(row: Row, context: Context) -> float | None:
    timed = context.timed.get(row.label, [])
    return steady_ms(timed) if timed else None


def minutes_of(row: Row, context: Context) -> float | None:
    timed = context.timed.get(row.label, [])
    return minutes(timed) if timed else None


def times_source(row: Row, context: Context) -> float | None:
    """Time per image as a multiple of Source's: on the same streams, else of all with the same model and batch size."""
    timed, source = context.timed.get(row.label, []), context.source_times
    slower = times_other(paired(timed, source))
    return steady_ms(timed) / steady_ms(source) if slower is None and source and timed else slower


def paired(records: Sequence[Record], others: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Records of two rows on the same streams, so that a failed task does not distort their ratio.

    Where the others ran in several modes (bf16, compiled), the record's own mode comes first.
    """
    by_stream = grouped(others, lambda other: other.cell.conditions.key)
    found = []
    for record in records:
        those, mode = by_stream.get(record.cell.conditions.key), record.cell.conditions.mode
        if those:
            found.append((record, next((other for other in those if other.cell.conditions.mode == mode), those[0])))
    return found


def times_other(pairs: Sequence[tuple[Record, Record]]) -> float | None:
    """Steady time per image of the first of each pair as a multiple of the second's; None without pairs."""
    return steady_ms([own for own, _ in pairs]) / steady_ms([other for _, other in pairs]) if pairs else None


def contradictions(rows: Sequence[Row]) -> dict[str, tuple[float, float]]:
    """Rows that took less time than Source for at least as many forwards, which no method can: both as × Source."""
    source = [record for row in rows if row.is_source for record in row.done]
    found = {}
    for row in rows:
        pairs = [
            (own, other)
            for own, other in paired([] if row.is_source else row.done, source)
            if own.cell.conditions.mode == other.cell.conditions.mode and own.time_conditions == other.time_conditions
        ]
        time = times_other(pairs) or math.inf
        own, others = (
            (sum(record.measured.sample_forwards for record in side) for side in zip(*pairs, strict=True))
            if pairs
            else (0, 1)
        )
        if time < LEAST_TIME and own >= others:
            found[row.label] = time, own / others
    return found


def contradiction_note(comparison: Comparison) -> list[Note]:
    """A warning about times that contradict the counts of passes, if there are any."""
    found = [
        f"{label} took {time:.2f} × Source's time for {forwards:.2f} × its forwards"
        for label, (time, forwards) in contradictions(comparison.rows).items()
    ]
    text = "Times contradict the counts of passes: something else used the machine. Compare passes, or run alone again"
    return [warning(f"{text}: {'; '.join(found)}.")] if found else []


def _memory_note(comparison: Comparison) -> list[Note]:
    measures = {
        f"{r.measured.memory['measure']}, while adapting" if memory_is_of_adapting(r) else r.measured.memory["measure"]
        for r in comparison.records
        if r.measured.memory.get("measure")
    }
    return [info(f"peak MiB: {' / '.join(sorted(measures))}.")] if measures else []


def memory_is_of_adapting(record: Record) -> bool:
    """Whether the peak leaves out `prepare`: some systems cannot reset it, so there it covers the whole run."""
    return "prepare_bytes" in record.measured.memory and "whole run" not in record.measured.memory["measure"]
