"""Scores of a finished stream, from per-sample predictions alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tta_bench.measure.open_set import separations
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record, Scores

LANES = 8  # sums for each bin: adding to one sum alone waits for the addition before


def expected_calibration_error(confidence: NDArray[np.floating], correct: NDArray[np.bool_], bins: int = 15) -> float:
    """Mean gap between confidence and accuracy over equal-width bins, weighted by their samples; in [0, 1]."""
    if len(confidence) == 0:
        return 0.0
    index = (confidence * bins).astype(np.int32)
    np.minimum(index, bins - 1, out=index)
    index += bins * _lanes(len(index))
    gap_sums = np.bincount(index, weights=confidence - correct.astype(np.float64), minlength=LANES * bins)
    return float(np.abs(gap_sums.reshape(LANES, bins).sum(axis=0)).sum() / len(confidence))


@lru_cache(maxsize=4)  # streams of one dataset have few lengths
def _lanes(count: int) -> NDArray[np.int32]:
    """Which of a bin's sums each sample is added to."""
    return np.arange(count, dtype=np.int32) % LANES


def contradiction(record: Record, predictions: Predictions) -> str:
    """How a record's scores contradict its predictions; empty if they agree."""
    for name, score in vars(scores_of(predictions, record.cell.spec.tasks)).items():
        if not _same(score, recorded := getattr(record.scores, name)):
            return f"its {name} is {recorded}, but its predictions give {score}"
    return ""


def _same(score: object, recorded: object) -> bool:
    if isinstance(score, dict) and isinstance(recorded, dict):
        return score.keys() == recorded.keys() and all(_same(score[key], recorded[key]) for key in score)
    if isinstance(score, float) and isinstance(recorded, float):
        return math.isclose(score, recorded, rel_tol=1e-9, abs_tol=1e-9)
    return score == recorded


def scores_of(predictions: Predictions, tasks: Sequence[str]) -> Scores:
    """The scores of a record: the only place that computes them from predictions."""
    correct = predictions.correct
    top1 = _share(correct)
    if len(tasks) == 1:
        by_task = {tasks[0]: top1}
    else:
        parts = {name: correct[predictions.task == number] for number, name in enumerate(tasks)}
        by_task = {name: _share(part) for name, part in parts.items() if len(part)}
    return Scores(
        samples=predictions.images,
        top1=top1,
        top5=_share(predictions.in_top5),
        task_top1=by_task,
        ece=expected_calibration_error(predictions.confidence, correct),
        open=_open(predictions, tasks),
    )


def _open(predictions: Predictions, tasks: Sequence[str]) -> dict[str, dict[str, float]]:
    """How well scores separate known from unknown images, task by task."""
    if predictions.unknown is None:
        return {}
    parts = {name: predictions.of_task(number) for number, name in enumerate(tasks)}
    return {name: separations(part, part.unknown) for name, part in parts.items() if len(part) and part.unknown}


def _share(marks: NDArray[np.bool_]) -> float:
    return int(np.count_nonzero(marks)) / len(marks)  # a tenth of the time of mean()
