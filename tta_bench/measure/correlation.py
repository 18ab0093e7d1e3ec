"""How strongly a stream's labels follow each other, measured: one setting of a sampler means little across datasets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WINDOW = 64


class Correlation(NamedTuple):
    """Of the labels of a stream, in its order."""

    run: float  # images of one class in a row, on average
    top: float  # share of the commonest class in windows of 64 images, on average


def correlation(labels: NDArray[np.integer]) -> Correlation:
    """Measure the labels of a stream; a shorter stream than a window is one window."""
    run = len(labels) / (1 + np.count_nonzero(np.diff(labels)))
    count = max(1, len(labels) // WINDOW)
    windows = np.sort(labels[: count * WINDOW].reshape(count, -1), axis=1)
    size = windows.shape[1]
    changes = np.concatenate([np.ones((count, 1), bool), windows[:, 1:] != windows[:, :-1]], axis=1)
    starts = np.flatnonzero(changes.ravel())
    lengths = np.diff(np.append(starts, windows.size))
    top = np.zeros(count, np.int64)
    np.maximum.at(top, starts // size, lengths)
    return Correlation(float(run), float(top.mean()) / size)
