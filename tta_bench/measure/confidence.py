"""What confidences are worth, from per-image predictions alone: calibration, and accuracy of the surest part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def brier_of_top(confidence: NDArray[np.floating], correct: NDArray[np.bool_]) -> float:
    """Mean squared gap between the confidence in the predicted class and whether it was right; in [0, 1].

    The Brier score over all classes needs all probabilities, which records do not have.
    """
    return float(np.mean((confidence.astype(np.float64) - correct) ** 2)) if len(correct) else 0.0


def reliability(
    confidence: NDArray[np.floating], correct: NDArray[np.bool_], bins: int = 15
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Mean confidence, accuracy and images of each equal-width bin that has images."""
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    images = np.bincount(place, minlength=bins)
    kept = images > 0
    sure, right = (np.bincount(place, weights=values, minlength=bins)[kept] for values in (confidence, correct))
    return sure / images[kept], right / images[kept], images[kept]


def risk_coverage(confidence: NDArray[np.floating], correct: NDArray[np.bool_]) -> Floats:
    """The share of errors among the k surest images, for k from 1 to all; equal confidences keep the stream's order."""
    order = np.argsort(-confidence.astype(np.float64), kind="stable")
    return np.asarray(np.cumsum(~correct[order]) / np.arange(1, len(correct) + 1), np.float64)


def class_accuracy(label: NDArray[np.integer], correct: NDArray[np.bool_]) -> dict[int, float]:
    """Accuracy on the images of each class that occurs."""
    return {int(name): float(correct[label == name].mean()) for name in np.unique(label)}
