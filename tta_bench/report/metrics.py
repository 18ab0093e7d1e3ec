"""Metrics: numbers of a stream from its stored predictions, of tta-bench and of installed packages.

A metric is a function of predictions (with their labels) and the record, behind the entry-point group
`tta_bench.metrics`. `--metric NAME` shows it as a column of every table, for old runs as well.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tta_bench import plugins
from tta_bench.errors import UserError, reason, some
from tta_bench.measure import confidence
from tta_bench.measure.correlation import correlation
from tta_bench.notes import Note, warning
from tta_bench.plugins import Group
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.report import visits
from tta_bench.report.column import Column, Line
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.runs import Runs

PLACES = ("csv", "frame", "time", "ranking", "page", "board")
LEAST_IN_GROUP = 10  # images: of fewer, an accuracy is chance
LAST = 100  # right of all columns of tta-bench

Number = float | Mapping[str, float]  # of a stream, or of each of its tasks


@dataclass(frozen=True)
class Metric:
    """How to compute a number, and how tables show it."""

    compute: Callable[[Predictions, Record], Number]
    title: str = ""  # heads its column, with the unit; the entry point's name if empty
    about: str = ""
    digits: int = 2
    better: Literal["higher", "lower", ""] = ""


def metrics() -> Group:
    """The installed metrics; imports none of them."""
    return plugins.group("metric")


def load(name: str) -> Metric:
    """A metric by its name: a `Metric`, or a plain function whose first line of documentation says what it is."""
    found = metrics().load_object(name)
    if isinstance(found, Metric):
        return found
    if not callable(found) or isinstance(found, type):
        raise UserError(f"metric '{name}' of {metrics().owner(name)}: expected a tta_bench.Metric or a function")
    return Metric(found, about=(found.__doc__ or "").strip().partition("\n")[0])


def with_metrics(comparison: Comparison, runs: Runs, names: Sequence[str]) -> Comparison:
    """The comparison with a column for each of these metrics; what a metric cannot compute becomes a note."""
    columns, notes = metric_columns(names, comparison.records, runs)
    return replace(comparison, columns=columns, notes=(*comparison.notes, *notes)) if names else comparison


def metric_columns(
    names: Sequence[str], records: Sequence[Record], runs: Runs
) -> tuple[tuple[Column, ...], tuple[Note, ...]]:
    """A column for each metric, with its values for these records, and warnings about those that it cannot compute."""
    from tta_bench.report.columns import COLUMNS

    taken = {
        word
        for column in COLUMNS
        for word in (column.key, column.title)
        if not {"stress", "streams"} & set(column.shown)
    }
    columns, notes = [], []
    for name in dict.fromkeys(names):
        metric = load(name)
        if taken & {name, metric.title}:
            raise UserError(f"metric '{name}' of {metrics().owner(name)}: a column of tta-bench has this name")
        values, problems = _computed(metric, records, runs)
        columns.append(_column(name, metric, values))
        if problems:
            where = some([f"{cell}: {why}" for cell, why in problems.items()], separator="; ")
            count = f"{len(problems)} of {len(records)} cells"
            notes.append(warning(f"metric '{name}' of {metrics().owner(name)} gave no number for {count}: {where}."))
    return tuple(columns), tuple(notes)


Values = dict[tuple[str, str], float]  # by a cell's key and a task


def _computed(metric: Metric, records: Sequence[Record], runs: Runs) -> tuple[Values, dict[str, str]]:
    values, problems = Values(), dict[str, str]()
    for record in records:
        if record.status != "done":
            continue
        try:
            found = metric.compute(runs.predictions(record.cell), record)
            by_task = found if isinstance(found, Mapping) else dict.fromkeys(record.cell.spec.tasks, found)
            values |= {(record.cell.key, task): _number(by_task[task]) for task in record.cell.spec.tasks}
        except UserError:  # of damaged predictions
            raise
        except (Exception, SystemExit) as error:  # third-party code may raise anything
            problems[f"{record.label} on {record.cell.name}, seed {record.cell.spec.seed}"] = reason(error)
    return values, problems


def _number(found: Any) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float | np.number) or not math.isfinite(found):
        raise ValueError(f"expected a finite number, got {str(found)[:40]!r}")
    return float(found)


def _column(name: str, metric: Metric, values: Values) -> Column:
    def of_row(row: Row, _: object) -> float | None:
        """The mean over streams and their tasks; only where none is missing."""
        found = [values.get((record.cell.key, task)) for record in row.done for task in record.cell.spec.averaged]
        known = [value for value in found if value is not None]
        return statistics.fmean(known) if len(known) == len(found) else None

    def of_record(line: Line) -> float:
        return values.get((line.record.cell.key, line.task), math.nan)

    return Column(
        name,
        dict.fromkeys(PLACES, LAST),  # type: ignore[arg-type]
        name=metric.title or name,
        about=metric.about,
        digits=metric.digits,
        better=metric.better,
        record=of_record,
        row=of_row,
    )


def by_class(found: Predictions) -> dict[int, float]:
    return confidence.class_accuracy(found.label, found.correct)


def _risk(found: Predictions) -> Any:
    return confidence.risk_coverage(found.confidence, found.correct)


WORST_CLASS = Metric(
    lambda found, _: 100 * min(by_class(found).values()),
    "worst class %",
    "accuracy on a stream's worst class",
    digits=1,
    better="higher",
)
BRIER = Metric(
    lambda found, _: float(found.brier.mean(dtype=np.float64)),
    "Brier",
    "squared distance of all classes' probabilities from the truth, from 0 to 2",
    digits=3,
    better="lower",
)
AURC = Metric(
    lambda found, _: 100 * float(_risk(found).mean()),
    "AURC %",
    "share of errors among the surest images, averaged over all coverages",
    digits=1,
    better="lower",
)
SUREST_HALF = Metric(
    lambda found, _: 100 * (1 - float(_risk(found)[(len(found) - 1) // 2])),
    "surest half %",
    "accuracy on the half of the images with the highest confidence",
    digits=1,
    better="higher",
)


def _worst_task(_: Predictions, record: Record) -> float:
    return 100 * min(record.accuracies.values())


def _worst_group(found: Predictions, _: Record) -> float:
    """A group is a class of a task, as in studies of spurious correlations."""
    group = found.task.astype(np.int64) * (1 + int(found.label.max())) + found.label
    images, hits = np.bincount(group), np.bincount(group, found.correct)
    large = images >= LEAST_IN_GROUP
    if not large.any():
        raise ValueError(f"no class of a task has {LEAST_IN_GROUP} images")
    return 100 * float((hits[large] / images[large]).min())


WORST_TASK = Metric(
    _worst_task,
    "worst task %",
    "accuracy on the worst task of a stream, clean images left out",
    digits=1,
    better="higher",
)
WORST_GROUP = Metric(
    _worst_group,
    "worst group %",
    f"accuracy on the worst class of a task of a stream, of those with at least {LEAST_IN_GROUP} images",
    digits=1,
    better="higher",
)


def _clean(which: str, pick: Callable[[Any], float]) -> Metric:
    return Metric(
        lambda found, record: float(pick(visits.clean(found, record))),
        f"clean {which} %",
        f"accuracy on the {which} clean images of a stream that has some",
        digits=1,
        better="higher",
    )


CLEAN_FIRST = _clean("first", lambda found: found[0])
CLEAN_LAST = _clean("last", lambda found: found[-1])
CLEAN_WORST = _clean("worst", min)
RUN_LENGTH = Metric(
    lambda found, _: correlation(found.label).run,
    "run length",
    "images of one class in a row, on average; a property of the stream",
)
TOP_64 = Metric(
    lambda found, _: 100 * correlation(found.label).top,
    "top of 64 %",
    "share of the commonest class in windows of 64 images; a property of the stream",
    digits=1,
)
OF_STREAMS = {
    "run-length": RUN_LENGTH,
    "top-64": TOP_64,
    "worst-task": WORST_TASK,
    "worst-group": WORST_GROUP,
    "clean-first": CLEAN_FIRST,
    "clean-last": CLEAN_LAST,
    "clean-worst": CLEAN_WORST,
}
OWN = {"worst-class": WORST_CLASS, "brier": BRIER, "aurc": AURC, "surest-half": SUREST_HALF}
