"""Scores of a finished stream, from per-sample predictions alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record


def expected_calibration_error(confidence: NDArray[np.floating], correct: NDArray[np.bool_], bins: int = 15) -> float:
    """Mean gap between confidence and accuracy over equal-width bins, weighted by their samples; in [0, 1]."""
    if len(confidence) == 0:
        return 0.0
    index = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gap_sums = np.bincount(index, weights=confidence - correct.astype(np.float64), minlength=bins)
    return float(np.abs(gap_sums).sum() / len(confidence))


def contradiction(record: Record, predictions: Predictions) -> str:
    """How a record's scores differ from those of its predictions; empty if they agree."""
    for name, score in scores_of(predictions, record.cell.tasks).items():
        if not _same(score, getattr(record, name)):
            return f"its {name} is {getattr(record, name)}, but its predictions give {score}"
    return ""


def _same(score: object, recorded: object) -> bool:
    if isinstance(score, dict) and isinstance(recorded, dict):
        return score.keys() == recorded.keys() and all(_same(score[key], recorded[key]) for key in score)
    if isinstance(score, float) and isinstance(recorded, float):
        return math.isclose(score, recorded, rel_tol=1e-9, abs_tol=1e-9)
    return score == recorded


def scores_of(predictions: Predictions, tasks: Sequence[str]) -> dict[str, Any]:
    """The scores of a record, by field name: the only place that computes them from predictions."""
    correct = predictions.correct
    return {
        "samples": len(correct),
        "top1": float(correct.mean()),
        "top5": float(predictions.in_top5.mean()),
        "task_top1": {
            name: float(correct[predictions.task == number].mean())
            for number, name in enumerate(tasks)
            if (predictions.task == number).any()
        },
        "ece": expected_calibration_error(predictions.confidence, correct),
    }
