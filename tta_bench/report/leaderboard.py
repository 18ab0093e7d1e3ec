"""The leaderboard: every number in tidy CSV, and a ranking. Same records, same bytes: they diff well in git."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tta_bench.errors import UserError
from tta_bench.notes import Note, info
from tta_bench.records.conditions import StreamKey
from tta_bench.records.record import Record
from tta_bench.report.costs import slow_first_batch, steady_ms
from tta_bench.report.differences import make_stream
from tta_bench.report.measured import measured
from tta_bench.report.render import csv_lines
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.runs import Runs
from tta_bench.report.stats import Blocks, estimate, holm
from tta_bench.report.tables import average, is_live, scoring, scoring_columns, scoring_note
from tta_bench.report.values import NONE, Table, Value

COLUMNS = (
    "label",
    "method",
    "settings",
    "suite",
    "task",
    "seed",
    "top1",
    "top5",
    "ece",
    "scored",
    "forwards_per_image",
    "backwards_per_image",
    "needs_source",
    "ms_per_image",
    "peak_mib",
    "model",
    "weights",
    "stream",
    "status",
    "reason",
    "slow_first_batch",  # how many times the median of the others it took; empty where nothing is noted
)
ALPHA = 0.05
CLOSE_NOTE = info("≈: not distinguishable from the best (paired, all tasks together, block bootstrap, Holm).")


def tidy_csv(comparison: Comparison) -> str:
    """One line per row, task and seed, sorted by label, order of tasks and seed; accuracies are fractions."""
    order = {task: place for place, task in enumerate(comparison.tasks)}
    lines = [
        (row.label, order[task], record.cell.spec.seed, _tidy(row.label, task, record))
        for row in comparison.rows
        for record in row.records
        for task in record.cell.spec.tasks
    ]
    return csv_lines([COLUMNS, *(line for *_, line in sorted(lines, key=lambda line: line[:3]))])


def _tidy(label: str, task: str, record: Record) -> list[str]:
    cell, found, done = record.cell, measured(record, task), record.status == "done"
    return [
        label,
        cell.spec.method,
        json.dumps(cell.own_settings, sort_keys=True),
        cell.spec.suite,
        task,
        str(cell.spec.seed),
        _digits(found.accuracy, 4),
        _digits(found.top5, 4),
        _digits(found.ece, 4),
        record.measured.score_point if done else "",
        _digits(found.forwards_per_image, 3),
        _digits(found.backwards_per_image, 3),
        ("yes" if record.measured.needs_source else "no") if done else "",
        _digits(found.ms_per_image, 3),
        _digits(found.peak_mib, 0),
        cell.spec.model,
        cell.found.weights,
        cell.found.stream,
        record.status,
        record.reason,
        _digits(slow_first_batch(record) or math.nan, 1),
    ]


def _digits(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


@dataclass(frozen=True)
class Close:
    """Labels of rows that are not distinguishable from the best, and notes about them."""

    labels: frozenset[str] = frozenset()
    notes: tuple[Note, ...] = ()


NO_MARKS = Close()


def close_to_best(comparison: Comparison, runs: Runs) -> Close:
    """Which rows are not distinguishable from the best; without predictions a note says why that is not known."""
    scored = _ranked(comparison)[1]
    if len(scored) < 2:
        return Close()
    best, *others = scored
    streams = {record.cell.conditions.key for record in best.done}
    apart = [row.label for row in others if streams.isdisjoint(record.cell.conditions.key for record in row.done)]
    notes = [info(f"Not compared with the best, which has other streams: {', '.join(apart)}.")] if apart else []
    try:
        return Close(frozenset(not_distinguishable(scored, runs)), (CLOSE_NOTE, *notes))
    except UserError as error:
        return Close(notes=(info(f"Which rows are not distinguishable from the best is not known: {error}"),))


def _ranked(comparison: Comparison) -> tuple[list[Row], list[Row]]:
    """Rows by their average, best first: all rows, and those that have an average."""
    averages = {row.label: average(row, comparison.tasks).rank for row in comparison.rows}
    ranked = sorted(comparison.rows, key=lambda row: (-averages[row.label], row.label))
    return ranked, [row for row in ranked if averages[row.label] > float("-inf")]


def ranking(comparison: Comparison, close: Close = NO_MARKS) -> Table:
    """Rows by their average, best first; those not distinguishable from the best are marked."""
    averages = {row.label: average(row, comparison.tasks) for row in comparison.rows}
    ranked, scored = _ranked(comparison)
    about = info(f"Average over {len(comparison.tasks)} tasks. {scoring_note(comparison)}")
    rows = []
    for row in ranked:
        value = averages[row.label]
        place = 1 + sum(averages[other.label].rank > value.rank for other in scored)
        rank = f"{place}{'≈' if row.label in close.labels else ''}" if row in scored else NONE
        rows.append((row.label, (Value(word=rank), value, *scoring(row, live=is_live(comparison)), *_cost(row))))
    columns = ("rank", "Avg.", *scoring_columns(comparison), "ms/image", "peak MiB")
    return Table(f"{comparison.suite}: leaderboard", columns, tuple(rows), (*comparison.notes, about, *close.notes))


def not_distinguishable(rows: Sequence[Row], runs: Runs) -> set[str]:
    """Labels of rows whose mean difference from the first, over all streams that both have, may be chance."""
    by_stream: dict[StreamKey, list[tuple[str, Record]]] = defaultdict(list)
    for row in rows:
        for record in row.done:
            by_stream[record.cell.conditions.key].append((row.label, record))
    blocks: dict[str, list[Blocks]] = defaultdict(list)
    best = rows[0].label
    for records in by_stream.values():
        correct = {label: runs.correct(record.cell) for label, record in records}
        if best in correct:
            for label, record in records:
                if label != best:
                    index = runs.index(record.cell)
                    blocks[label].append(Blocks(make_stream(record.cell, correct[label], correct[best], index)))
    p = {label: estimate(streams, replicates=0).p for label, streams in blocks.items()}
    return {label for label, adjusted in zip(p, holm(list(p.values())), strict=True) if adjusted >= ALPHA}


def _cost(row: Row) -> tuple[Value, Value]:
    if not row.done:
        return Value(), Value()
    peak = max(record.measured.memory.get("bytes", 0) for record in row.done) / 2**20
    return Value(steady_ms(row.done), digits=2), Value(peak, digits=0)
