"""What confidences are worth: the Brier score, calibration, and accuracy of the surest part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def brier_scores(probabilities: NDArray[np.floating], label: NDArray[np.integer]) -> NDArray[np.float32]:
    """The Brier score of each image over all classes (a row each), in [0, 2]: the squared distance from the truth.

    A label outside the classes is an image that shows none of them: any probability is too much.
    """
    gap = probabilities.astype(np.float64)
    known = np.flatnonzero((label >= 0) & (label < len(gap)))
    gap[label[known], known] -= 1
    return np.asarray((gap**2).sum(0), np.float32)


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
