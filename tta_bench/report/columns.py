"""All columns, once: CSV, Markdown, LaTeX, frames, page, board and exports read this list.

A new number is one entry here. Accuracies by task, and differences from a paper or between rows, are not in it: they
are tables of their own, with a column for each task.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

from tta_bench.report import costs, open_set, orders, streams, stress
from tta_bench.report.column import Column, Line, Place, at
from tta_bench.report.metrics import OF_STREAMS
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.values import NONE


def columns_at(place: Place, comparison: Comparison | None = None) -> list[Column]:
    """The columns that a place shows, with those of the metrics that a comparison was asked for.

    Without a comparison, those are included that only some records have.
    """
    if comparison is None:
        return at(place, COLUMNS)
    found = at(place, (*COLUMNS, *comparison.columns))
    return [column for column in found if column.only is None or any(map(column.only, comparison.records))]


def _of_whole(line: Line, value: float) -> float:
    """A number of a whole stream; a stream over several tasks has it for all of them together only."""
    return value if len(line.record.cell.spec.tasks) == 1 else math.nan


def _per_image(row: Row, counts: Iterable[int]) -> float:
    return sum(counts) / sum(map(costs.images_of, row.done))


def _environment(key: str) -> Any:
    return lambda line: line.record.measured.environment.get(key)


def _peak(line: Line) -> float:
    memory = line.record.measured.memory
    return memory["bytes"] / 2**20 if "bytes" in memory else math.nan


_FACTS = (
    Column("label", {"csv": 1}, record=lambda line: line.label),
    Column("method", {"csv": 2}, record=lambda line: line.record.cell.spec.method),
    Column("settings", {"csv": 3, "frame": 23}, record=lambda line: line.record.cell.own_settings),
    Column("suite", {"csv": 4, "frame": 1}, record=lambda line: line.record.cell.spec.suite),
    Column("scenario", {"frame": 2}, record=lambda line: line.record.cell.conditions.scenario),
    Column("task", {"csv": 5, "frame": 3}, record=lambda line: line.task),
    Column("severity", {"frame": 4}, record=lambda line: _severity(line)),
    Column("seed", {"csv": 6, "frame": 5}, record=lambda line: line.record.cell.spec.seed),
    Column("method", {"frame": 6}, record=lambda line: line.label),
    Column("model", {"csv": 16, "frame": 24}, record=lambda line: line.record.cell.spec.model),
    Column("weights", {"csv": 17, "frame": 25}, record=lambda line: line.record.cell.found.weights),
    Column("stream", {"csv": 18}, record=lambda line: line.record.cell.found.stream),
    Column("status", {"csv": 19, "frame": 20}, record=lambda line: line.record.status),
    Column("reason", {"csv": 20, "frame": 21}, record=lambda line: line.record.reason),
    Column("plugin", {"frame": 22}, record=lambda line: line.record.cell.spec.method),
    Column("batch_size", {"frame": 26}, record=lambda line: line.record.cell.spec.batch_size),
    Column("limit", {"frame": 27}, record=lambda line: line.record.cell.spec.limit),
    Column("stream_speed", {"frame": 28}, record=lambda line: _speed(line)),
    Column("amp", {"frame": 30}, record=lambda line: line.record.cell.spec.amp),
    Column("compile", {"frame": 31}, record=lambda line: line.record.cell.spec.compile),
    Column("device", {"frame": 32}, record=lambda line: line.record.cell.found.device),
    Column("device_name", {"frame": 33}, record=_environment("device_name")),
    Column("threads", {"frame": 34}, record=_environment("threads")),
    Column("tta_bench", {"frame": 35}, record=lambda line: line.record.cell.found.harness),
    Column("commit", {"frame": 36}, record=_environment("commit")),
    Column("finished_at", {"frame": 37}, record=lambda line: line.record.finished_at or None),
    Column("cell", {"frame": 38}, record=lambda line: line.record.cell.slug),
)


def _severity(line: Line) -> Any:
    cell = line.record.cell
    return None if cell.spec.scenario == "gradual" else cell.data.get("severity")  # that one rises and falls


def _speed(line: Line) -> float:
    live = line.record.cell.spec.live
    return live.speed if live else 0.0


_SCORES = (
    Column("top1", {"csv": 7}, digits=3, better="higher", record=lambda line: _top1(line)),
    Column("top5", {"csv": 8}, digits=3, better="higher", record=lambda line: _of_whole(line, line.record.scores.top5)),
    Column("accuracy", {"frame": 7}, digits=1, better="higher", record=lambda line: 100 * _top1(line)),
    Column(
        "top5",
        {"frame": 8},
        digits=1,
        better="higher",
        record=lambda line: 100 * _of_whole(line, line.record.scores.top5),
    ),
    Column(
        "ece",
        {"csv": 9, "frame": 9},
        digits=3,
        better="lower",
        record=lambda line: _of_whole(line, line.record.scores.ece),
    ),
    Column(
        "scored",
        {"csv": 10, "frame": 18, "scoring": 1},
        about="the weights that a prediction is taken with",
        record=lambda line: line.record.measured.score_point or None,
        row=lambda row, _: row.first.measured.score_point or NONE,
    ),
)


def _top1(line: Line) -> float:
    return line.record.scores.task_top1.get(line.task, math.nan)


_COSTS = (
    Column("images", {"frame": 10}, digits=0, record=lambda line: line.record.scores.samples),
    Column(
        "seconds",
        {"frame": 11, "time": 1},
        about="all of `adapt`, per seed",
        digits=1,
        better="lower",
        record=lambda line: line.record.measured.seconds["adapt"],
        row=costs.seconds_of,
    ),
    Column(
        "prepare_seconds",
        {"frame": 12, "time": 8},
        name="prepare s",
        about="seconds that a method learns from source images, per stream",
        digits=2,
        better="lower",
        record=lambda line: line.record.measured.seconds["prepare"],
        row=lambda row, _: sum(record.measured.seconds["prepare"] for record in row.done) / len(row.done),
    ),
    Column(
        "ms_per_image",
        {"csv": 14, "frame": 13, "time": 2, "ranking": 1, "page": 1},
        name="ms/image",
        about="milliseconds of `adapt` per image, without each stream's first batch",
        digits=2,
        better="lower",
        record=lambda line: line.record.steady_ms_per_image,
        row=costs.steady_of,
    ),
    Column(
        "times_source",
        {"time": 3, "page": 2, "board": 1, "cost": 1},
        name="× Source",
        about="time per image, relative to Source in the same run",
        digits=2,
        better="lower",
        row=costs.times_source,
    ),
    Column(
        "minutes",
        {"time": 4},
        name=costs.minutes_name(),
        about="minutes of `adapt` for 50,000 images",
        digits=2,
        better="lower",
        row=costs.minutes_of,
    ),
    Column(
        "forwards_per_image",
        {"csv": 11, "frame": 14, "time": 5, "scoring": 2, "board": 2, "cost": 2},
        name="forwards/image",
        short="fwd",
        about="forward passes per image",
        digits=2,
        better="lower",
        record=lambda line: line.record.measured.sample_forwards / max(costs.images_of(line.record), 1),
        row=lambda row, _: _per_image(row, (record.measured.sample_forwards for record in row.done)),
    ),
    Column(
        "backwards_per_image",
        {"csv": 12, "frame": 15, "time": 6, "scoring": 3, "board": 3, "cost": 3},
        name="backwards/image",
        short="bwd",
        about="backward passes per image",
        digits=2,
        better="lower",
        record=lambda line: line.record.measured.sample_backwards / max(costs.images_of(line.record), 1),
        row=lambda row, _: _per_image(row, (record.measured.sample_backwards for record in row.done)),
    ),
    Column(
        "needs_source",
        {"csv": 13, "frame": 19, "scoring": 4},
        name="src",
        about="needs source images",
        record=lambda line: line.record.measured.needs_source if line.record.status == "done" else None,
        row=lambda row, _: "yes" if row.first.measured.needs_source else "no",
    ),
    Column(
        "seen",
        {"frame": 29, "live": 1},
        name="seen %",
        about="batches that it adapted to; the others were only predicted",
        digits=1,
        better="higher",
        record=lambda line: 100 * line.record.measured.seen,
        row=lambda row, _: 100 * statistics.fmean(record.measured.seen for record in row.done),
    ),
    Column(
        "peak_mib",
        {"csv": 15, "frame": 17, "time": 7, "ranking": 2, "cost": 4},
        name="peak MiB",
        about="peak memory",
        digits=0,
        more_digits=0,
        better="lower",
        record=_peak,
        row=lambda row, _: max(record.measured.memory.get("bytes", 0) for record in row.done) / 2**20,
    ),
    Column(
        "resets",
        {"frame": 16, "stress": 8},
        about="resets to the source weights by the method itself",
        digits=0,
        record=lambda line: line.record.measured.resets,
        row=lambda row, _: sum(record.measured.resets for record in row.done),
    ),
    Column(
        "slow_first_batch",
        {"csv": 21},
        about="how many times the median of the others it took; empty where nothing is noted",
        digits=0,
        better="lower",
        record=lambda line: costs.slow_first_batch(line.record) or math.nan,
    ),
)

_STRESS = (
    Column("worst_class", {"stress": 1}, "worst class %", digits=1, better="higher", row=stress.mean_of("worst-class")),
    Column("worst_is", {"stress": 2}, "it is", row=stress.worst_class),
    Column("ece_percent", {"stress": 3}, "ECE %", digits=1, better="lower", row=stress.mean_ece),
    Column("brier", {"stress": 4}, "Brier", digits=3, better="lower", row=stress.mean_of("brier")),
    Column("aurc", {"stress": 5}, "AURC %", digits=1, better="lower", row=stress.mean_of("aurc")),
    Column("surest_half", {"stress": 6}, "surest half %", digits=1, better="higher", row=stress.mean_of("surest-half")),
    Column("collapsed", {"stress": 7}, row=stress.collapsed),
)

_ORDERS = (
    Column("worst", {"orders": 1}, digits=1, better="higher", row=orders.worst),
    Column("worst_seed", {"orders": 2}, "its seed", row=orders.worst_seed),
    Column("median", {"orders": 3}, digits=1, better="higher", row=orders.across_orders(statistics.median)),
    Column("best", {"orders": 4}, digits=1, better="higher", row=orders.across_orders(max)),
    Column("mean", {"orders": 5}, digits=1, better="higher", row=orders.across_orders(statistics.fmean)),
    Column("below", {"orders": 6}, "below Source", row=orders.below_source),
)

_STREAMS = (
    Column(
        "clean",
        {"scoring": 0},
        about="accuracy in percent on the clean images beside the tasks, not in the average",
        digits=1,
        better="higher",
        row=streams.clean,
        only=streams.has_clean,
    ),
    *(
        Column(key, {"streams": i}, metric.title, digits=metric.digits, better=metric.better, row=streams.mean_of(key))
        for i, (key, metric) in enumerate(OF_STREAMS.items())
    ),
    Column("slope", {"streams": 20}, "error/visit", digits=2, better="lower", row=streams.slope(0)),
    Column("slope_low", {"streams": 21}, "95 % low", digits=2, row=streams.slope(1)),
    Column("slope_high", {"streams": 22}, "high", digits=2, row=streams.slope(2)),
    Column("collapsed_visits", {"streams": 23}, "collapsed", row=streams.collapsed),
)

COLUMNS = (*_FACTS, *_SCORES, *_COSTS, *_STRESS, *_ORDERS, *_STREAMS, *open_set.COLUMNS)
