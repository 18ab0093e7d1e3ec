"""What averages hide, from stored predictions: the worst class, calibration, risk and coverage, and collapse."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

from tta_bench.measure.collapse import WINDOW, collapsed_at
from tta_bench.notes import Note, info, warning
from tta_bench.records.record import Record
from tta_bench.report.column import Context
from tta_bench.report.costs import paired
from tta_bench.report.metrics import OWN, by_class
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.runs import Runs
from tta_bench.report.values import NONE, Table, Value

MOST_CLASSES = 20  # of a table by class: more do not fit
NOTES = (  # what the columns mean
    "worst class: accuracy on a stream's worst class, mean over streams; it is: the class that is worst most often.",
    "Brier: squared distance of all classes' probabilities from the truth, from 0 to 2; lower is better.",
    "AURC: share of errors among the surest images, averaged over all coverages; lower is better.",
    "surest half: accuracy on the half of the images with the highest confidence.",
    "collapsed: streams on which a method ends with a third of Source's classes or fewer (docs/stress.md).",
)


class Collapse(NamedTuple):
    """A stream on which a method collapsed."""

    record: Record
    batch: int  # from 0


def collapses(row: Row, comparison: Comparison, runs: Runs) -> list[Collapse]:
    """Where a row collapsed; needs Source on the same streams."""
    if row.is_source:
        return []
    found = []
    for record, source in _with_source(row, comparison):
        if collapsed_at(runs.ending(record.cell), runs.ending(source.cell), WINDOW) is None:
            continue
        own, base = (runs.predictions(one.cell).whole("prediction") for one in (record, source))
        batch = collapsed_at(own, base, record.cell.spec.batch_size)
        if batch is not None:
            found.append(Collapse(record, batch))
    return found


def collapse_notes(comparison: Comparison, runs: Runs) -> list[Note]:
    """A warning for each row that collapsed, which names its earliest collapse."""
    notes = []
    for row in comparison.rows:
        found = collapses(row, comparison, runs)
        if found:
            (record, batch), streams = min(found, key=lambda one: one.batch), len(row.done)
            batches = len(record.measured.batch_seconds)
            where = f"{record.cell.name}, seed {record.cell.spec.seed}, at batch {batch + 1} of {batches}"
            more = f" ({len(found)} of {streams} streams)" if len(found) > 1 else ""
            notes.append(warning(f"{row.label} collapsed on {where}{more}."))
    return notes


def class_table(comparison: Comparison, runs: Runs) -> Table:
    """Accuracy on each class, averaged over streams; of many classes those on which the rows are worst on average."""
    found = {row.label: _by_class(row, runs) for row in comparison.rows}
    classes = sorted({name for own in found.values() for name in own})
    notes = [*comparison.notes]
    if len(classes) > MOST_CLASSES:
        means = {name: statistics.fmean(own[name] for own in found.values() if name in own) for name in classes}
        text = f"The {MOST_CLASSES} worst of {len(classes)} classes; tta_bench.predictions(folder) has all images."
        notes.append(info(text))
        classes = sorted(sorted(classes, key=lambda name: means[name])[:MOST_CLASSES])
    rows = tuple(
        (label, tuple(Value(own[name]) if name in own else Value() for name in classes)) for label, own in found.items()
    )
    return Table(f"{comparison.caption}: accuracy (%) by class", tuple(map(str, classes)), rows, tuple(notes))


def _by_class(row: Row, runs: Runs) -> dict[int, float]:
    """Accuracy in percent on each class, averaged over the streams in which it occurs."""
    scores: dict[int, list[float]] = {}
    for record in row.done:
        found = runs.predictions(record.cell)
        for name, accuracy in by_class(found).items():
            scores.setdefault(name, []).append(100 * accuracy)
    return {name: statistics.fmean(own) for name, own in scores.items()}


def mean_of(metric: str) -> Callable[[Row, Context], float]:
    """A row's mean of one of tta-bench's own metrics over its streams."""
    return lambda row, context: statistics.fmean(_measures(record, context)[metric] for record in row.done)


def mean_ece(row: Row, _: Context) -> float:
    return 100 * statistics.fmean(record.scores.ece for record in row.done)


def worst_class(row: Row, context: Context) -> str:
    """The class that is the worst of most streams."""
    return str(int(statistics.mode(_measures(record, context)["class"] for record in row.done)))


def collapsed(row: Row, context: Context) -> str:
    """On how many of its streams a row collapsed; nothing without Source to compare with."""
    if row.is_source or not _with_source(row, context.comparison):
        return NONE
    return f"{len(collapses(row, context.comparison, context.runs))}/{len(row.done)}"


def _measures(record: Record, context: Context) -> dict[str, float]:
    """All metrics of a stream, whose predictions are read once."""
    key = "stress", id(record)
    if key not in context.memory:
        found = context.runs.predictions(record.cell)
        shares = by_class(found)
        worst = {"class": min(shares, key=lambda name: shares[name])}
        context.memory[key] = {name: metric.compute(found, record) for name, metric in OWN.items()} | worst
    measures: dict[str, float] = context.memory[key]
    return measures


def _with_source(row: Row, comparison: Comparison) -> list[tuple[Record, Record]]:
    return paired(row.done, [record for other in comparison.rows if other.is_source for record in other.done])
