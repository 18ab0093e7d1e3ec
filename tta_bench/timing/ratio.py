"""The ratio of two things that were timed side by side, several passes over the same batches.

Each pair of times was taken side by side, so a slow moment of the machine slows both.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tta_bench.measure.ratio import Ratio, small_sample_factor

LEVEL = 0.99  # checked several times, for several methods: 0.95 would be wrong too often
DRAWS = 1000

Floats = NDArray[np.float64]


def estimate(log_ratios: Floats) -> Ratio:
    """From log ratios [passes, batches]: the median over passes, averaged over batches.

    The median, because interruptions only ever add time. Batches differ in work, so each has its own. Whole passes are
    drawn again for the interval: neighbouring batches share what slows the machine.
    """
    passes = len(log_ratios)
    value = _centre(log_ratios[None])[0]
    drawn = np.random.Generator(np.random.PCG64(0)).integers(passes, size=(DRAWS, passes))
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(_centre(log_ratios[drawn]), [tail, 1 - tail])
    wider = small_sample_factor(passes - 1, tail)
    return Ratio(math.exp(value), math.exp(value - (value - low) * wider), math.exp(value + (high - value) * wider))


def _centre(samples: Floats) -> Floats:
    centre: Floats = np.median(samples, axis=1).mean(axis=1)
    return centre
