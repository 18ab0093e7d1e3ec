"""What every target is given: the cells of run folders as runs with settings, numbers and curves, and their tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.report import choose, curves, frames
from tta_bench.report.column import Column, at
from tta_bench.report.columns import COLUMNS
from tta_bench.report.metrics import metric_columns, with_metrics
from tta_bench.report.runs import Runs
from tta_bench.report.tables import layout
from tta_bench.report.values import Table

if TYPE_CHECKING:
    import pandas as pd

Series = tuple[tuple[int, float], ...]  # images seen so far, and a value


@dataclass(frozen=True)
class Run:
    """One cell: a method on a stream with a seed. Accuracies are in percent."""

    name: str  # as in "tent, snow, seed 0"
    key: str  # the cell's, as in its file name: the same for the same cell, whenever it is exported
    suite: str
    method: str  # the row's label in the tables
    stream: str
    seed: int
    settings: Mapping[str, Any]  # the method's own
    conditions: Mapping[str, Any]  # what it ran under, and on what
    numbers: Mapping[str, float]  # none of a failed cell
    curves: Mapping[str, Series]
    is_done: bool
    reason: str  # of a failure
    finished: float  # seconds since 1970; 0 if unknown

    @property
    def steps(self) -> dict[int, dict[str, float]]:
        """The values of all curves by the images seen so far, in order."""
        found: dict[int, dict[str, float]] = {}
        for name, points in self.curves.items():
            for images, value in points:
                found.setdefault(images, {})[name] = value
        return dict(sorted(found.items()))


@dataclass(frozen=True)
class Content:
    """All runs, and the tables that a report makes of them."""

    name: str  # the suites
    runs: tuple[Run, ...]
    tables: Mapping[str, Table]  # by names such as "digits-c-5/accuracy"
    notes: tuple[str, ...]
    frame: pd.DataFrame  # as `tta_bench.frame`
    predictions: pd.DataFrame | None  # as `tta_bench.predictions`; None if no cell is done


def collect(runs: Runs, filters: Sequence[choose.Filter] = (), metrics: Sequence[str] = ()) -> Content:
    """Read everything once; what a report refuses as unfair or damaged is refused here."""
    cells, notes = frames.labelled(runs, filters)
    columns, problems = metric_columns(metrics, [record for _, record in cells], runs)
    notes += problems
    compared = [with_metrics(one, runs, metrics) for one in choose.comparisons(runs.records, filters)]
    tables = {f"{one.suite}/{name}": table for one in compared for name, table in layout(one).items()}
    return Content(
        name=", ".join(dict.fromkeys(record.cell.spec.suite for _, record in cells)),
        runs=tuple(_run(label, record, runs, columns) for label, record in cells),
        tables=tables,
        notes=tuple(map(str, notes)),
        frame=frames.cells_frame(cells, notes, columns),
        predictions=frames.predictions_frame(cells, runs),
    )


def _run(label: str, record: Record, runs: Runs, columns: Sequence[Column]) -> Run:
    cell, done = record.cell, record.status == "done"
    line = frames.line(label, cell.spec.tasks[0], record, columns)
    numbers = [
        column.key for column in at("frame", (*COLUMNS, *columns)) if column.digits is not None and column.key in line
    ]
    conditions = {key: value for key, value in line.items() if key not in {*numbers, *_OWN} and value is not None}
    moment = datetime.fromisoformat(record.finished_at).timestamp() if record.finished_at else 0.0
    return Run(
        name=f"{label}, {cell.name}, seed {cell.spec.seed}",
        key=cell.key[:12],
        suite=cell.spec.suite,
        method=label,
        stream=cell.name,
        seed=cell.spec.seed,
        settings=cell.own_settings,
        conditions={**conditions, "tasks": ", ".join(cell.spec.tasks)},
        numbers=_numbers(record, {key: line[key] for key in numbers}),
        curves=_curves(record, runs.predictions(cell)) if done else {},
        is_done=done,
        reason=record.reason,
        finished=moment,
    )


_OWN = ("task", "method", "settings", "reason", "finished_at")  # a run has fields for these


def _numbers(record: Record, found: dict[str, float]) -> dict[str, float]:
    """The numbers of a table's row; a stream over several tasks has its total, and each task's accuracy."""
    if record.status != "done":
        return {}
    if len(record.cell.spec.tasks) > 1:
        found["accuracy"] = 100 * record.accuracy
        found |= {f"accuracy of {task}": 100 * share for task, share in record.scores.task_top1.items()}
    return {key: float(value) for key, value in found.items() if not math.isnan(value)}


def _curves(record: Record, predictions: Predictions) -> dict[str, Series]:
    """Along the stream, one point per batch; a batch that was only predicted has no time."""
    ends = curves.batch_ends(record)
    sizes = np.diff(ends, prepend=0)
    milliseconds = 1000 * np.asarray(record.measured.batch_seconds) / sizes
    found = {
        "running_accuracy": curves.running(predictions, ends),
        "batch_accuracy": 100 * curves.by_batch(predictions, predictions.correct, ends),
        "confidence": curves.by_batch(predictions, predictions.confidence, ends),
        "entropy": curves.by_batch(predictions, predictions.entropy, ends),
        "adapt_ms_per_image": np.where(milliseconds > 0, milliseconds, np.nan),
    }
    return {name: _series(ends, values) for name, values in found.items()}


def _series(ends: NDArray[np.int64], values: NDArray[np.float64]) -> Series:
    points = zip(ends.tolist(), values.tolist(), strict=True)
    return tuple((end, value) for end, value in points if not math.isnan(value))
