"""Scores of a finished stream, from per-sample predictions alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def expected_calibration_error(confidence: NDArray[np.floating], correct: NDArray[np.bool_], bins: int = 15) -> float:
    """Mean gap between confidence and accuracy over equal-width bins, weighted by their samples; in [0, 1]."""
    if len(confidence) == 0:
        return 0.0
    index = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gap_sums = np.bincount(index, weights=confidence - correct.astype(np.float64), minlength=bins)
    return float(np.abs(gap_sums).sum() / len(confidence))
