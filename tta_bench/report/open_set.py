"""Columns and metrics of streams with unknown classes: how well these are detected, and the accuracy on known ones."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np

from tta_bench.measure import open_set
from tta_bench.measure.open_set import h_score
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.report.column import Column, Context, Line, Place
from tta_bench.report.metrics import Metric
from tta_bench.report.rows import Comparison, Row

NOTES = (
    "AUROC: share of pairs of a known and an unknown image in which the known one has the higher score, ties half; "
    "FPR95: share of unknown images accepted where 95 % of the known ones are; H: harmonic mean of accuracy and AUROC, "
    "task by task.",
    "Score: the method's own if it has one, else the negative entropy. softmax, entropy, energy: by these scores.",
    "Accuracies are those of the known classes. unknown: share of the images that show none of them.",
)


def has_unknown(record: Record) -> bool:
    """Whether images of unknown classes were in a record's stream."""
    return bool(record.scores.open)


def are_open(comparison: Comparison) -> bool:
    return any(map(has_unknown, comparison.records))


def _number(record: Record, task: str, name: str) -> float:
    """A number of a task as a fraction; NaN if it has none."""
    found = record.scores.open.get(task, {})
    score = "own" if "own auroc" in found else "entropy"
    if name == "h":
        accuracy, separation = record.scores.task_top1.get(task, math.nan), found.get(f"{score} auroc", math.nan)
        return h_score(accuracy, separation)
    return found.get(f"{score} {name}" if name in ("auroc", "fpr95") else name, math.nan)


def _of_row(name: str) -> Callable[[Row, Context], float | None]:
    """A row's mean over tasks and seeds in percent; none where one is missing."""

    def found(row: Row, _: Context) -> float | None:
        values = [_number(record, task, name) for record in row.done for task in record.accuracies]
        return None if not values or any(map(math.isnan, values)) else 100 * statistics.fmean(values)

    return found


def _of_line(name: str, factor: int) -> Callable[[Line], float]:
    return lambda line: factor * _number(line.record, line.task, name)


_KINDS = (  # the key and head of a column, and what it shows
    ("unknown_share", "unknown %", "unknown"),
    ("auroc", "AUROC %", "auroc"),
    ("fpr95", "FPR95 %", "fpr95"),
    ("h_score", "H %", "h"),
    *(
        (f"{measure}_{score}", f"{title} {score} %", f"{score} {measure}")
        for score in ("softmax", "entropy", "energy")
        for measure, title in (("auroc", "AUROC"), ("fpr95", "FPR95"))
    ),
)
_FIRST = 50  # right of all other columns
_ON_PAGES = ("auroc", "fpr95", "h_score")


def _columns() -> list[Column]:
    found = []
    for place, (key, name, what) in enumerate(_KINDS):
        number, shown = _FIRST + place, dict[Place, int]()
        shown |= {"frame": number, "open": number}
        if key in _ON_PAGES:
            shown |= {"page": number, "board": number, "ranking": number}
        better = "" if what == "unknown" else "lower" if "fpr95" in what else "higher"
        line, row = _of_line(what, 100), _of_row(what)
        found.append(Column(key, {"csv": number}, digits=3, record=_of_line(what, 1), only=has_unknown))
        found.append(Column(key, shown, name, digits=1, better=better, record=line, row=row, only=has_unknown))  # type: ignore[arg-type]
    return found


COLUMNS = _columns()


def _in_and_out(found: Predictions) -> tuple[np.ndarray, np.ndarray]:
    """The scores of right answers, and of all others: as COME's code separates them."""
    name = "softmax" if open_set.score(found, "own") is None else "own"
    own, right = open_set.score(found, name), found.correct
    others = open_set.score(found.unknown, name) if found.unknown else None
    assert own is not None
    outside = own[~right] if others is None else np.concatenate([own[~right], others])
    if not (right.any() and len(outside)):
        raise ValueError("needs right answers and others")
    return own[right], outside


AUROC_CORRECT = Metric(
    lambda found, _: 100 * open_set.auroc(*_in_and_out(found)),
    "AUROC correct %",
    "right answers against wrong ones and unknown classes (Zhang et al., 2025), by its own score or the softmax",
    digits=1,
    better="higher",
)
FPR95_CORRECT = Metric(
    lambda found, _: 100 * open_set.fpr95(*_in_and_out(found)),
    "FPR95 correct %",
    "share of wrong answers and unknown classes accepted where 95 % of the right answers are (Zhang et al., 2025)",
    digits=1,
    better="lower",
)
