"""How many times longer one thing takes than another, with an interval. The caller decides how to estimate it.

Intervals are computed with logarithms: twice as slow and twice as fast are equally far from equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tta_bench.measure.student import NORMAL, t_quantile


@dataclass(frozen=True)
class Ratio:
    """A ratio of times with its interval, which is NaN if too little was measured."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def __truediv__(self, other: Ratio) -> Ratio:
        """The change from another, independent ratio; both uncertainties count."""
        value = self.value / other.value
        down = math.hypot(math.log(self.value / self.low), math.log(other.high / other.value))
        up = math.hypot(math.log(self.high / self.value), math.log(other.value / other.low))
        return Ratio(value, value * math.exp(-down), value * math.exp(up))

    @property
    def has_interval(self) -> bool:
        return not math.isnan(self.low)

    @property
    def reach(self) -> float:
        """How far from equal it may be: 0.03 is three percent slower or faster."""
        return max(self.high, 1 / self.low) - 1

    @property
    def bias(self) -> float:
        """How far from equal it is at least: 0 if the interval contains 1."""
        return max(self.low, 1 / self.high, 1.0) - 1

    @property
    def width(self) -> float:
        """Half of the interval, relative to the value."""
        return math.sqrt(self.high / self.low) - 1


def small_sample_factor(freedom: float, tail: float) -> float:
    """By how much to widen a bootstrap interval: few blocks or passes estimate their own spread badly."""
    return t_quantile(freedom, 1 - tail) / NORMAL.inv_cdf(1 - tail)
