"""Curves along a stream, one point at the end of each batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tta_bench.records.record import Record


def batch_ends(record: Record) -> NDArray[np.int64]:
    """How many images have been seen at the end of each batch."""
    size, samples, batches = record.cell.spec.batch_size, record.scores.samples, len(record.measured.batch_seconds)
    if batches > -(-samples // size):  # batches that end with their tasks: their sizes are not recorded
        return np.linspace(samples / batches, samples, batches).astype(np.int64)
    return np.minimum(np.arange(size, record.scores.samples + size, size), record.scores.samples)


def running(correct: NDArray[np.bool_], ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Accuracy in percent over all images up to each of these ends."""
    return np.asarray(100 * np.cumsum(correct)[ends - 1] / ends, np.float64)
