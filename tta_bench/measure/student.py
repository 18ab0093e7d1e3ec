"""Student's t and the binomial sign test in plain Python: reports need them on machines without scipy."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

FEW_TRIALS = 50  # of a coin, whose splits are counted without rounding
MOST_TERMS = 100_000  # a continued fraction takes about √(a + b) terms
TINY = 1e-300  # keeps a denominator of the continued fraction away from 0
NORMAL = NormalDist()


def t_below(freedom: float, t: float) -> float:
    """The probability that Student's t is at most `t`."""
    tail = 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=10_000)
def t_quantile(freedom: float, p: float) -> float:
    """The value below which Student's t lies with probability `p`, from 1e-6 to 1 - 1e-6."""
    if p > 0.5:
        return -t_quantile(freedom, 1 - p)
    low, high = -1.0, 0.0
    while t_below(freedom, low) > p:
        low, high = 2 * low, low
    t = max(low, NORMAL.inv_cdf(p))
    while True:
        excess = t_below(freedom, t) - p
        low, high = (low, t) if excess > 0 else (t, high)
        newton = t - excess / _t_density(freedom, t)
        following = newton if low < newton < high else (low + high) / 2
        if abs(following - t) <= 1e-14 * abs(t):
            return following
        t = following


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided probability that a fair coin splits as unevenly as this."""
    fewer, trials = min(wins, losses), wins + losses
    if wins == losses:
        return 1.0
    if trials <= FEW_TRIALS:
        return float(sum(math.comb(trials, k) for k in range(fewer + 1)) / 2 ** (trials - 1))
    return min(1.0, 2 * incomplete_beta(trials - fewer, fewer + 1, 0.5))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast only below this
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )  # of the power series
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, MOST_TERMS):
        before = fraction
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            fraction *= c * d
        if abs(fraction - before) <= 1e-16 * abs(fraction):
            break
    return front * fraction / a


def _t_density(freedom: float, t: float) -> float:
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    return math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))


def _away_from_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY
