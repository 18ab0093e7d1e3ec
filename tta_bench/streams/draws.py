"""Random numbers of streams, made from raw bits: numpy promises stable bits across versions, not stable distributions.

Logarithms may differ in their last bit between machines. A draw is used only after rounding down to whole images, so
such a bit moves an image about once in 10^9 streams.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.seeding import seed_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Draws:
    """A private source of random numbers, determined by names."""

    def __init__(self, *names: object) -> None:
        self._bits = np.random.PCG64(seed_of(*names))

    def uniform(self, *shape: int) -> Floats:
        """Numbers strictly between 0 and 1."""
        raw = np.asarray(self._bits.random_raw(int(np.prod(shape))), np.uint64)
        found: Floats = ((raw >> np.uint64(11)).astype(np.float64) + 0.5).reshape(shape) * 2.0**-53
        return found

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self.uniform(1)[0] * n)

    def order(self, n: int) -> Ints:
        """A random order of n things."""
        return np.argsort(self.uniform(n), kind="stable").astype(np.int64)

    def normal(self, n: int) -> Floats:
        """Numbers of the standard normal distribution (Box and Muller)."""
        found: Floats = np.sqrt(-2 * np.log(self.uniform(n))) * np.cos(2 * np.pi * self.uniform(n))
        return found

    def log_gamma(self, shape: float, *size: int) -> Floats:
        """Logarithms of gamma numbers (Marsaglia and Tsang): for a small shape, the numbers themselves underflow."""
        count = int(np.prod(size))
        d = shape + 1 - 1 / 3
        c = 1 / np.sqrt(9 * d)
        found = np.full(count, np.nan)
        while len(left := np.flatnonzero(np.isnan(found))):
            x = self.normal(len(left))
            v = np.maximum(1 + c * x, 1e-90) ** 3
            taken = np.log(self.uniform(len(left))) < x * x / 2 + d - d * v + d * np.log(v)
            found[left[taken]] = np.log(d * v[taken])
        return (found + np.log(self.uniform(count)) / shape).reshape(size)

    def dirichlet_logs(self, delta: float, count: int, slots: int) -> Floats:
        """`count` draws from Dir(delta · 1) over `slots`, as logarithms of unnormalised shares."""
        return self.log_gamma(delta, count, slots)

    def zipf(self, a: float, count: int) -> Ints:
        """Whole numbers from 1 whose chance falls as n^-a (Devroye)."""
        found = np.zeros(count)
        b = 2.0 ** (a - 1)
        while len(left := np.flatnonzero(found == 0)):
            u, v = self.uniform(len(left)), self.uniform(len(left))
            x = np.floor(u ** (-1 / (a - 1)))
            t = (1 + 1 / x) ** (a - 1)
            taken = (v * x * (t - 1) / (b - 1) <= t / b) & (x < 2.0**53)
            found[left[taken]] = x[taken]
        return found.astype(np.int64)


def shares(logs: Floats) -> Floats:
    """Shares that sum to 1, from the logarithms of unnormalised ones; minus infinity becomes 0."""
    raised = np.exp(logs - logs.max(-1, keepdims=True))
    found: Floats = raised / raised.sum(-1, keepdims=True)
    return found
