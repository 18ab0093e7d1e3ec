"""What composed streams are asked besides accuracy: how labels follow each other, the worst task and group, what is
forgotten, and what changes from visit to visit. All of it follows from stored predictions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

from tta_bench.records.record import Record
from tta_bench.records.spec import CLEAN
from tta_bench.report import visits
from tta_bench.report.column import Context
from tta_bench.report.costs import paired
from tta_bench.report.metrics import OF_STREAMS
from tta_bench.report.rows import Comparison, Row
from tta_bench.streams.scenarios import SCENARIOS

NOTES = (  # what the columns mean
    "run length: images of one class in a row; top of 64: share of the commonest class in windows of 64 images.",
    "worst group: accuracy on the worst class of a task; groups of fewer than 10 images are left out.",
)
CLEAN_NOTES = {
    True: "clean: accuracy on a probe of clean images, predicted without adapting; first: before all tasks.",
    False: "clean: accuracy on clean images that are parts of the stream and adapted to; first: after one task.",
}
VISITS_NOTE = (
    "error/visit: change of the error from visit to visit, in points, with a 95 % interval. collapsed: seeds and "
    "visits at whose end a method answers with a third of Source's classes or fewer."
)


def are_composed(comparison: Comparison) -> bool:
    """Whether the streams of a comparison are compositions."""
    return comparison.records[0].cell.spec.scenario not in SCENARIOS


def has_clean(record: Record) -> bool:
    """Whether clean images were in a record's stream, beside its tasks."""
    return visits.clean_task(record) is not None


def clean(row: Row, _: Context) -> float | None:
    """A row's accuracy in percent on clean images, the mean over its streams."""
    values = [record.scores.task_top1[CLEAN] for record in row.done if has_clean(record)]
    return 100 * statistics.fmean(values) if values else None


def notes(comparison: Comparison) -> tuple[str, ...]:
    """What the shown columns mean."""
    record = comparison.records[0]
    of_clean = (CLEAN_NOTES[visits.is_probe(record)],) if has_clean(record) else ()
    return (*NOTES, *of_clean, *((VISITS_NOTE,) if visits.is_recurring(record) else ()))


def mean_of(metric: str) -> Callable[[Row, Context], float | None]:
    """A row's mean of a metric over its streams; none where a stream has no such number."""

    def found(row: Row, context: Context) -> float | None:
        values = [_measures(record, context)[metric] for record in row.done]
        return None if any(map(math.isnan, values)) else statistics.fmean(values)

    return found


def slope(part: int) -> Callable[[Row, Context], float | None]:
    """The change of the error per visit, or an end of its interval."""

    def found(row: Row, context: Context) -> float | None:
        points = [_measures(record, context)["visits"] for record in row.done]
        change = None if any(one is None for one in points) else visits.slope([100 - one for one in points])
        return change[part] if change else None

    return found


def collapsed(row: Row, context: Context) -> str | None:
    """The visits at which a row collapsed, by seed."""
    if row.is_source or not visits.is_recurring(row.first):
        return None
    bases = [record for other in context.comparison.rows if other.is_source for record in other.done]
    found = []
    for record, base in paired(row.done, bases):
        at = visits.collapsed(*(context.runs.predictions(one.cell) for one in (record, base)))
        found += [f"{record.cell.spec.seed}: {', '.join(map(str, at))}"] if at else []
    return "; ".join(found) or "never"


def _measures(record: Record, context: Context) -> dict[str, Any]:
    """All numbers of a stream, whose predictions are read once; NaN where it has no such number."""
    key = "streams", id(record)
    if key not in context.memory:
        found = context.runs.predictions(record.cell)
        own: dict[str, Any] = {"visits": visits.over_tasks(found, record)}
        for name, metric in OF_STREAMS.items():
            try:
                own[name] = metric.compute(found, record)
            except ValueError:  # no clean images, or too few in each group
                own[name] = math.nan
        context.memory[key] = own
    measures: dict[str, Any] = context.memory[key]
    return measures
