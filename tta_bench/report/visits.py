"""Streams that show their images several times: the error of each visit, and whether it grows.

A visit is how often an image has been shown: stored predictions say so by themselves, without the scenario's code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.occurrences import earlier
from tta_bench.measure.collapse import FEWER, WINDOW, signals
from tta_bench.measure.student import t_quantile
from tta_bench.records.predictions import Predictions

LEAST_CLASSES = 3  # of Source, below which no collapse can be seen


class Slope(NamedTuple):
    """The change per visit, with its 95 % interval; it assumes that visits scatter independently around a line."""

    mean: float
    low: float
    high: float


def accuracies(found: Predictions, tasks: Sequence[int] = ()) -> NDArray[np.float64]:
    """Accuracy in percent at each visit, over all tasks or over these."""
    kept = np.isin(found.task, tasks) if tasks else np.ones(len(found), bool)
    number = earlier(found.index[kept])
    hits = np.bincount(number, found.correct[kept])
    return np.asarray(100 * hits / np.bincount(number), np.float64)


def slope(points: Sequence[Sequence[float]]) -> Slope | None:
    """The slope over visits of one or several seeds; None with fewer than three visits."""
    if min(map(len, points)) < 3:
        return None
    x = np.concatenate([np.arange(len(one)) for one in points]).astype(np.float64)
    y = np.concatenate([np.asarray(one, np.float64) for one in points])
    spread = ((x - x.mean()) ** 2).sum()
    mean = float(((x - x.mean()) * (y - y.mean())).sum() / spread)
    rest = y - y.mean() - mean * (x - x.mean())
    freedom = len(x) - 2
    half = t_quantile(freedom, 0.975) * math.sqrt(float((rest**2).sum()) / freedom / spread)
    return Slope(mean, mean - half, mean + half)


def collapsed(own: Predictions, source: Predictions) -> list[int]:
    """The visits at whose end a method answers with at most a third of Source's classes, from 1."""
    if not np.array_equal(own.index, source.index):
        return []
    number, found = earlier(own.index), []
    for visit in range(int(number.max()) + 1):
        last = np.flatnonzero(number == visit)[-WINDOW:]
        seen = signals(own.prediction[last], source.prediction[last])
        if seen.source_classes >= LEAST_CLASSES and seen.classes <= FEWER * seen.source_classes:
            found.append(visit + 1)
    return found
