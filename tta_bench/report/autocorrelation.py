"""How much a sum of batches would vary, when neighbouring batches may be alike.

The widest of three estimates counts, because each misses something:
- batches one by one: right if they are independent, and a lower bound in an adapted stream;
- blocks of √n of n batches, as in the block bootstrap: right for memories shorter than a block;
- a memory that fades from batch to batch: where neighbours are clearly alike, the autocovariances at lags 1 to 3 show
  how fast it fades, and so how much lies beyond the blocks. Noise of single batches does not enter them.
A learning curve looks like a memory but is none: a line is taken out for the first two, a parabola for the third, and
the variance that goes with it is put back.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tta_bench.measure.student import t_quantile

Floats = NDArray[np.float64]
CLEARLY = 1.645  # standard errors of lag 1 above 0, one-sided 5 %
SLOWEST = 0.97  # fading per batch; slower memories look like another mean
FEWEST = 24  # batches needed to estimate how fast a memory fades
FEWEST_OF_LINE = 12  # batches needed to fit a line
CAUTION = 1.3  # times the bias of the pace: too slow a pace costs width, too fast a pace costs coverage
CURVE = 2  # degree of the learning curve that is taken out before the pace is estimated


class Spread(NamedTuple):
    """A variance, and how well it is known: degrees of freedom of the t interval that goes with it."""

    variance: float
    freedom: float

    @property
    def reach(self) -> float:
        """Half of a 95 % interval."""
        return math.sqrt(self.variance) * t_quantile(self.freedom, 0.975)


def spread_of_sum(batches: Floats) -> Spread:
    """How much the sum of batches varies; at least two batches, with mean 0."""
    blocks = _from_blocks(batches)
    fading = _from_fading(batches, blocks.freedom)
    return max(blocks, fading, key=lambda spread: spread.reach) if fading else blocks


def block_length(batches: int) -> int:
    """√n, but short enough for at least six blocks where there are six batches."""
    return max(1, min(math.ceil(math.sqrt(batches)), batches // 6))


def block_sums(batches: Floats, length: int) -> Floats:
    """The sums of all blocks of so many neighbours, wrapping around the end."""
    return _sums(_ring(batches, length), length, len(batches))


def _ring(batches: Floats, length: int) -> Floats:
    """Running sums from the first batch on, far enough around the ring for blocks of this length."""
    n = len(batches)
    ring: Floats = np.zeros(n + length)
    ring[1 : n + 1] = batches
    ring[n + 1 :] = batches[: length - 1]
    return np.cumsum(ring, out=ring)


def _sums(ring: Floats, length: int, batches: int) -> Floats:
    return ring[length : length + batches] - ring[:batches]


def _from_blocks(batches: Floats) -> Spread:
    """The variance of the block bootstrap, computed without drawing.

    A block misses what reaches beyond it; longer blocks miss less. Twice the variance with blocks of twice the length,
    less the variance with these, removes the first order of that error, at the price of a degree of freedom.
    """
    n = len(batches)
    length = block_length(n)
    level, taken = levelled(batches), 2 if n >= FEWEST_OF_LINE else 1  # taken: mean and slope, or the mean alone
    alone = float(level @ level) * n / (n - taken)
    sizes = [size for size in (length, 2 * length) if size < max(n / 2, 2) and taken * size < 0.75 * n]
    ring = _ring(level, max(sizes))
    found = [float(np.sum(_sums(ring, size, n) ** 2)) / size * n / (n - taken * size) for size in sizes]
    return Spread(max(alone, found[0], 2 * found[-1] - found[0]), max(1.0, n / length - 2))


def _from_fading(batches: Floats, most: float) -> Spread | None:
    """The variance if each batch keeps a share of the one before; None where neighbours are not clearly alike."""
    n = len(batches)
    if n < FEWEST or not batches.any():
        return None
    rest = _without_curve(batches, CURVE)
    lag = [float(rest[k:] @ rest[: n - k]) / n for k in range(4)]
    if lag[0] < 1e-9 * float(batches @ batches) or lag[1] / lag[0] <= CLEARLY / math.sqrt(n):
        return None
    paces = [lag[1] / lag[0], *([(lag[2] + lag[3]) / (lag[1] + lag[2])] if lag[1] + lag[2] > 0 else [])]
    # Estimated autocorrelations are too low, and lower the more of the curve was taken out (Kendall, for a mean alone).
    pace = min(SLOWEST, max(share + CAUTION * (CURVE + 1 + (CURVE + 3) * share) / n for share in paces))
    worth = n * (1 - pace) / (1 + pace)  # independent batches that carry as much information
    long_run = n * (lag[0] + 2 * lag[1] / (1 - pace))
    taken = min(0.7, (CURVE + 1) / max(worth, 1.0))  # share of the variance that went with the curve
    return Spread(long_run / (1 - taken), min(most, max(1.5, worth - 1)))


def levelled(batches: Floats) -> Floats:
    """Batches without the line through them, where there are enough."""
    return _without_curve(batches, 1) if len(batches) >= FEWEST_OF_LINE else batches


def _without_curve(batches: Floats, degree: int) -> Floats:
    basis = _basis(len(batches), degree)
    rest: Floats = batches - basis @ (basis.T @ batches)
    return rest


@cache
def _basis(batches: int, degree: int) -> Floats:
    """Orthonormal polynomials up to a degree, at evenly spaced places; the same for all streams of a length."""
    basis: Floats = np.linalg.qr(np.vander(np.linspace(-1, 1, batches), degree + 1))[0]
    return basis
