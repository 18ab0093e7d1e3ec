"""How many times longer one thing takes than another, and how sure that is.

Each pair of times was taken side by side, so a slow moment of the machine slows both. Ratios live as logarithms: twice
as slow and twice as fast are the same distance from equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

LEVEL = 0.99  # looked at several times, for several methods: 0.95 would be wrong too often
DRAWS = 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ratio:
    """A ratio with its interval."""

    value: float
    low: float
    high: float

    def __truediv__(self, other: Ratio) -> Ratio:
        """The change from another ratio that was measured on its own; both uncertainties count."""
        value = self.value / other.value
        down = math.hypot(math.log(self.value / self.low), math.log(other.high / other.value))
        up = math.hypot(math.log(self.high / self.value), math.log(other.value / other.low))
        return Ratio(value, value * math.exp(-down), value * math.exp(up))

    @property
    def reach(self) -> float:
        """How far from equal it may be: 0.03 is three percent slower or faster."""
        return max(self.high, 1 / self.low) - 1

    @property
    def bias(self) -> float:
        """How far from equal it is at least: nothing where the interval holds 1."""
        return max(self.low, 1 / self.high, 1.0) - 1

    @property
    def width(self) -> float:
        """Half of the interval, relative to the value."""
        return math.sqrt(self.high / self.low) - 1


def estimate(log_ratios: Floats) -> Ratio:
    """From log ratios [passes, batches]: the median over passes, averaged over batches.

    The median, because a machine's hiccups only ever add time. Batches differ in work, so each has its own. Whole
    passes are drawn again for the interval: neighbours share the machine's mood.
    """
    passes = len(log_ratios)
    value = _centre(log_ratios[None])[0]
    drawn = np.random.Generator(np.random.PCG64(0)).integers(passes, size=(DRAWS, passes))
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(_centre(log_ratios[drawn]), [tail, 1 - tail])
    few = float(stdtrit(passes - 1, 1 - tail) / ndtri(1 - tail))  # few passes know their own spread badly
    return Ratio(math.exp(value), math.exp(value - (value - low) * few), math.exp(value + (high - value) * few))


def _centre(samples: Floats) -> Floats:
    centre: Floats = np.median(samples, axis=1).mean(axis=1)
    return centre
