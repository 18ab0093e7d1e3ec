"""Curves along a stream, one point at the end of each batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record


def batch_ends(record: Record) -> NDArray[np.int64]:
    """How many images have been seen at the end of each batch."""
    size, samples, batches = record.cell.spec.batch_size, record.scores.samples, len(record.measured.batch_seconds)
    if batches > -(-samples // size):  # batches that end with their tasks: their sizes are not recorded
        return np.linspace(samples / batches, samples, batches).astype(np.int64)
    return np.minimum(np.arange(size, record.scores.samples + size, size), record.scores.samples)


def running(found: Predictions, ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Accuracy in percent over all images of known classes up to each of these ends; NaN before the first."""
    seen = np.searchsorted(found.places, ends)
    hits = np.concatenate([[0], np.cumsum(found.correct)])[seen]
    return np.where(seen > 0, 100 * hits / np.maximum(seen, 1), np.nan)


def by_batch(found: Predictions, values: NDArray[Any], ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean of values over the images of known classes of each batch; NaN for a batch without any."""
    batch = np.searchsorted(ends, found.places, side="right")
    sums, images = np.bincount(batch, values, len(ends)), np.bincount(batch, minlength=len(ends))
    return np.where(images > 0, sums / np.maximum(images, 1), np.nan)
