"""Choosing settings without labels: published criteria, computed from stored predictions, beside the accuracy.

Each criterion is a number per stream, higher is better; a row's score is the mean over its streams.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tta_bench.notes import info
from tta_bench.records.predictions import Predictions
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.runs import Runs
from tta_bench.report.tables import average
from tta_bench.report.values import Table, Value

ACCURACY = "accuracy"


@dataclass(frozen=True)
class Criterion:
    about: str  # with the papers that propose it
    score: Callable[[Predictions], float]


def _entropy(found: Predictions) -> float:
    return -float(found.whole("entropy").mean())  # without labels, nobody knows which classes are unknown


def _information(found: Predictions) -> float:
    share = np.bincount(found.whole("prediction")) / found.images
    present = share[share > 0]
    return float(-(present * np.log(present)).sum()) + _entropy(found)


CRITERIA = {
    ACCURACY: Criterion("held-out accuracy; needs labels", lambda found: float(found.correct.mean())),
    "entropy": Criterion(
        "lowest mean entropy of predictions (Morerio et al., ICLR 2018; Cygert et al., 2024)", _entropy
    ),
    "confidence": Criterion(
        "highest mean confidence (Guillory et al., ICCV 2021 (average confidence))",
        lambda found: float(found.whole("confidence").mean()),
    ),
    "information": Criterion(
        "highest entropy of the predicted classes less mean entropy: sure of each, and of all classes (Krause et al., "
        "NIPS 2010; Shi and Sha, ICML 2012; here with counts of predicted classes for the marginal)",
        _information,
    ),
}


def score(row: Row, runs: Runs, criterion: str) -> float:
    """A row's mean score over its streams."""
    return statistics.fmean(CRITERIA[criterion].score(runs.predictions(record.cell)) for record in row.done)


def chosen(comparison: Comparison, runs: Runs, criterion: str) -> Row | None:
    """The row that a criterion chooses among those done on every stream; None if no row is."""
    streams = max(len(row.done) for row in comparison.rows)
    whole = [row for row in comparison.rows if row.done and len(row.done) == streams]
    return max(whole, key=lambda row: score(row, runs, criterion), default=None)


def choice_table(comparison: Comparison, runs: Runs) -> Table:
    """What each criterion chooses, and how many points of accuracy that loses against the best row."""
    best = chosen(comparison, runs, ACCURACY)
    rows = []
    for name in CRITERIA:
        row = chosen(comparison, runs, name)
        if row is None or best is None:
            continue
        value = average(row, comparison.tasks)
        lost = average(best, comparison.tasks).mean - value.mean
        rows.append((name, (Value(word=row.label), value, Value(lost, digits=1))))
    notes = tuple(info(f"{name}: {one.about}.") for name, one in CRITERIA.items())
    columns = ("chooses", "Avg.", "points lost")
    return Table(f"{comparison.caption}: settings by criterion", columns, tuple(rows), notes, "by")
