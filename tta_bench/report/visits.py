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
from tta_bench.records.record import Record
from tta_bench.records.spec import CLEAN

LEAST_CLASSES = 3  # of Source, below which no collapse can be seen


class Slope(NamedTuple):
    """The change per visit, with its 95 % interval; it assumes that visits scatter independently around a line."""

    mean: float
    low: float
    high: float


def clean_task(record: Record) -> int | None:
    """The number of the part with clean images that a composed stream has beside its tasks."""
    spec = record.cell.spec
    return spec.tasks.index(CLEAN) if CLEAN in spec.tasks and CLEAN not in spec.averaged else None


def of_tasks(found: Predictions, record: Record) -> NDArray[np.bool_]:
    """Which images belong to tasks: not the clean ones beside them."""
    return np.asarray(found.task != (-1 if (clean := clean_task(record)) is None else clean))


def is_probe(record: Record) -> bool:
    """Whether clean images are only predicted."""
    return "remember" in record.cell.spec.choices


def is_recurring(record: Record) -> bool:
    return "recurring" in record.cell.spec.choices


def clean(found: Predictions, record: Record) -> NDArray[np.float64]:
    """Accuracy in percent each time that clean images come."""
    number = clean_task(record)
    if number is None:
        raise ValueError("the stream has no clean images: use --scenario forgetting or --remember N")
    is_clean = found.task == number
    block = np.cumsum(np.diff(is_clean.astype(np.int8), prepend=0) == 1)[is_clean] - 1
    return np.asarray(100 * np.bincount(block, found.correct[is_clean]) / np.bincount(block), np.float64)


def over_tasks(found: Predictions, record: Record) -> NDArray[np.float64] | None:
    """Accuracy in percent at each visit of a recurring stream, clean images left out; None for other streams."""
    tasks = [i for i in range(len(record.cell.spec.tasks)) if i != clean_task(record)]
    return accuracies(found, tasks) if is_recurring(record) and comes_equally(found, tasks) else None


def comes_equally(found: Predictions, tasks: Sequence[int] = ()) -> bool:
    """Whether all images come equally often, so that the times of an image are visits."""
    kept = np.isin(found.task, tasks) if tasks else np.ones(len(found), bool)
    counts = np.bincount(found.index[kept])
    return len(set(counts[counts > 0].tolist())) == 1


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
