"""How many times longer one row takes than another, from the times of the same batches in the same order.

The first batch of each stream is warm-up and left out. What slows a machine lasts for several batches, so whole blocks
of neighbouring batches are drawn again (circular block bootstrap, blocks of √n of n batches).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from tta_bench.data.seeding import seed_of
from tta_bench.records.record import Record
from tta_bench.report.serial import block_length

REPLICATES = 2000
TAIL = 0.025
FEWEST = 6  # batches below which an interval would claim to know its own spread

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TimeRatio:
    """A ratio of times with its 95 % interval, which is missing where batches are too few."""

    value: float
    low: float
    high: float
    batches: int

    @property
    def sure(self) -> bool:
        return not math.isnan(self.low)


def time_ratio(pairs: Sequence[tuple[Record, Record]]) -> TimeRatio | None:
    """Of the first of each pair to the second; None where no pair timed the same batches."""
    timed = [_matched(*pair) for pair in pairs]
    streams = [times for times in timed if times is not None]
    if not streams:
        return None
    batches = sum(times.shape[1] for times in streams)
    own, base = np.sum([times.sum(1) for times in streams], axis=0)
    if batches < FEWEST:
        return TimeRatio(own / base, math.nan, math.nan, batches)
    rng = np.random.Generator(np.random.PCG64(seed_of("time ratio", len(streams), batches)))
    drawn = np.sum([_draw(times, rng) for times in streams], axis=0)
    moves = np.log(drawn[0] / drawn[1]) - math.log(own / base)
    blocks = sum(times.shape[1] / block_length(times.shape[1]) for times in streams)
    few = float(stdtrit(max(1.0, blocks - len(streams)), 1 - TAIL) / ndtri(1 - TAIL))  # they know their spread badly
    low, high = np.quantile(moves, [TAIL, 1 - TAIL]) * few
    return TimeRatio(own / base, own / base * math.exp(low), own / base * math.exp(high), batches)


def _matched(own: Record, base: Record) -> Floats | None:
    """Seconds of both for every batch but the first: [2, batches]."""
    ours, theirs = own.cell.conditions, base.cell.conditions
    same = (ours.stream, ours.batch_size) == (theirs.stream, theirs.batch_size)
    if not same or len(own.batch_seconds) != len(base.batch_seconds) or len(own.batch_seconds) < 2:
        return None
    return np.array([own.batch_seconds[1:], base.batch_seconds[1:]])


def _draw(times: Floats, rng: np.random.Generator) -> Floats:
    """The sums of both over blocks drawn again, the same blocks for both: [2, replicates]."""
    n = times.shape[1]
    length = block_length(n)
    ring = np.cumsum(np.concatenate([np.zeros((2, 1)), times, times[:, : length - 1]], axis=1), axis=1)
    sums = ring[:, length:] - ring[:, :-length]
    chosen = rng.integers(n, size=(REPLICATES, round(n / length)))
    drawn: Floats = sums[:, chosen].sum(2) * (n / (length * chosen.shape[1]))
    return drawn
