"""The ratio of two rows' times, from the times of the same batches in the same order.

The first batch of each stream is warm-up and left out. What slows a machine lasts for several batches, so whole blocks
of neighbouring batches are drawn again (circular block bootstrap, blocks of √n of n batches).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.seeding import seed_of
from tta_bench.measure.ratio import Ratio, small_sample_factor
from tta_bench.records.record import Record
from tta_bench.report.autocorrelation import block_length, block_sums

REPLICATES = 2000
TAIL = 0.025
FEWEST = 6  # batches: fewer cannot estimate their own spread

Floats = NDArray[np.float64]


def matched_batches(pairs: Sequence[tuple[Record, Record]]) -> list[Floats]:
    """For each pair that timed the same batches, the seconds of both for every batch but the first: [2, batches]."""
    timed = [_matched(*pair) for pair in pairs]
    return [times for times in timed if times is not None]


def time_ratio(streams: Sequence[Floats]) -> Ratio:
    """The first to the second, over all matched batches; without an interval where they are too few."""
    batches = sum(times.shape[1] for times in streams)
    own, base = np.sum([times.sum(1) for times in streams], axis=0)
    value = float(own / base)
    if batches < FEWEST:
        return Ratio(value)
    rng = np.random.Generator(np.random.PCG64(seed_of("time ratio", len(streams), batches)))
    drawn = np.sum([_draw(times, rng) for times in streams], axis=0)
    moves = np.log(drawn[0] / drawn[1]) - math.log(value)
    blocks = sum(times.shape[1] / block_length(times.shape[1]) for times in streams)
    low, high = np.quantile(moves, [TAIL, 1 - TAIL]) * small_sample_factor(max(1.0, blocks - len(streams)), TAIL)
    return Ratio(value, value * math.exp(low), value * math.exp(high))


def _matched(own: Record, base: Record) -> Floats | None:
    ours, theirs = own.cell.conditions, base.cell.conditions
    same = (ours.stream, ours.batch_size) == (theirs.stream, theirs.batch_size)
    laps = own.measured.batch_seconds, base.measured.batch_seconds
    is_live = any(record.measured.adapted_batches is not None for record in (own, base))  # some batches took no time
    if is_live or not same or len(laps[0]) != len(laps[1]) or len(laps[0]) < 2:
        return None
    return np.array([seconds[1:] for seconds in laps])


def _draw(times: Floats, rng: np.random.Generator) -> Floats:
    """The sums of both over blocks drawn again, the same blocks for both: [2, replicates]."""
    n = times.shape[1]
    length = block_length(n)
    sums = np.stack([block_sums(own, length) for own in times])
    chosen = rng.integers(n, size=(REPLICATES, round(n / length)))
    drawn: Floats = sums[:, chosen].sum(2) * (n / (length * chosen.shape[1]))
    return drawn
