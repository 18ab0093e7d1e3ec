"""Paired differences with their uncertainty, from the per-sample results of two methods on the same streams.

Online predictions are correlated: a model that has adapted badly stays bad for many batches. So whole blocks of batches
are drawn again, not samples (circular block bootstrap, blocks of √n of n batches), and the draws are stretched to the
spread that `autocorrelation` estimates, which accounts for what lasts longer than a block. Seeds and corruptions show
the same images, and an image counts once however often it is shown: the variance that streams share through images is
added, as in two-way clustering (Cameron, Gelbach and Miller, 2011).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.seeding import seed_of
from tta_bench.measure.ratio import small_sample_factor
from tta_bench.measure.student import t_below, t_quantile
from tta_bench.report.autocorrelation import Spread, block_length, block_sums, levelled, spread_of_sum

LEVEL = 0.95
REPLICATES = 2000
MOST_IMAGES = 2**23  # that a stream is drawn from; ImageNet-C has 3.75 million
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stream:
    """The results of two methods on one stream."""

    task: str
    images: str  # streams of the same name show the same image at the same index
    seed: int
    difference: NDArray[np.int8]  # of each sample in stream order: 1 where only b is right, -1 where only a is
    index: NDArray[np.integer]  # which image
    batch_size: int


@dataclass(frozen=True)
class Estimate:
    """A difference in accuracy, b minus a, as a fraction, with its 95 % interval and two-sided p."""

    difference: float
    low: float
    high: float
    p: float


class Blocks:
    """A stream cut into batches, and what blocks of neighbouring batches add to its mean difference."""

    def __init__(self, stream: Stream) -> None:
        d = stream.difference
        self.stream, self.samples = stream, len(d)
        self.mean = float(d.mean(dtype=np.float64))
        starts, sizes = _cuts(len(d), stream.batch_size)
        self.batches: Floats = np.add.reduceat(d, starts, dtype=np.float64) - self.mean * sizes
        self.variance, self.freedom = self._spread()

    def _spread(self) -> Spread:
        """Of the mean difference. Never less than one sample's worth: two methods that agree on every image of a
        short stream may well differ on the next.
        """
        if len(self.batches) == 1:
            found = Spread(self.samples * float(np.var(self.stream.difference)), 1.0)
        else:
            found = spread_of_sum(self.batches)
        return Spread(max(1.0, found.variance) / self.samples**2, found.freedom)

    @cached_property
    def _sums(self) -> Floats:
        return block_sums(levelled(self.batches), block_length(len(self.batches)))

    def draw(self, replicates: int) -> Floats:
        """How much the mean difference moves when blocks are drawn again; the draws are always the same."""
        length, sums = block_length(len(self.batches)), self._sums
        blocks = max(1, round(len(self.batches) / length))
        rng = np.random.Generator(np.random.PCG64(seed_of("bootstrap", self.stream.task, self.stream.seed)))
        spread = float(np.std(sums)) * math.sqrt(blocks)
        if spread == 0:  # nothing else can be drawn, as with a single batch
            return rng.standard_normal(replicates) * math.sqrt(self.variance)
        chosen: Floats = sums[rng.integers(len(sums), size=(replicates, blocks))].sum(1)
        return chosen * (math.sqrt(self.variance) / spread)


@cache
def _cuts(samples: int, batch_size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where batches start, and how large they are."""
    starts = np.arange(0, samples, batch_size)
    return starts, np.diff(starts, append=samples)


def estimate(streams: Sequence[Blocks], replicates: int = REPLICATES) -> Estimate:
    """The mean difference over tasks, each the mean over its seeds; without replicates from the variance alone."""
    weights = _weights(streams)
    difference = sum(w * blocks.mean for w, blocks in zip(weights, streams, strict=True))
    parts = [w**2 * blocks.variance for w, blocks in zip(weights, streams, strict=True)]
    apart = sum(parts)
    variance = apart + max(0.0, _shared(streams, weights))
    # Welch and Satterthwaite: a stream with few degrees of freedom counts by its share of the variance.
    freedom = apart**2 / sum(part**2 / blocks.freedom for part, blocks in zip(parts, streams, strict=True))
    error = math.sqrt(variance)
    tail = (1 - LEVEL) / 2
    reach = np.array([t_quantile(freedom, tail), t_quantile(freedom, 1 - tail)]) * error
    if replicates:
        drawn = sum((w * blocks.draw(replicates) for w, blocks in zip(weights, streams, strict=True)), np.zeros(1))
        wider = math.sqrt(variance / apart) * small_sample_factor(freedom, tail)
        skewed = np.quantile(drawn, [tail, 1 - tail]) * wider
        reach = np.array([min(reach[0], skewed[0]), max(reach[1], skewed[1])])  # the tails of a few blocks are short
    p = 2 * t_below(freedom, -abs(difference) / error)
    return Estimate(difference, difference + float(reach[0]), difference + float(reach[1]), p)


def _weights(streams: Sequence[Blocks]) -> list[float]:
    counts = Counter(blocks.stream.task for blocks in streams)
    return [1 / (counts[blocks.stream.task] * len(counts)) for blocks in streams]


def _shared(streams: Sequence[Blocks], weights: Sequence[float]) -> float:
    """The variance that streams have in common because they show the same images."""
    indices, size = dense([blocks.stream.index for blocks in streams])
    together: dict[str, Floats] = defaultdict(lambda: np.zeros(size))
    apart = 0.0
    for w, blocks, index in zip(weights, streams, indices, strict=True):
        own = np.bincount(index, blocks.stream.difference, size) - blocks.mean * np.bincount(index, minlength=size)
        own *= w / blocks.samples
        apart += float(own @ own)
        together[blocks.stream.images] += own
    return sum(float(deviation @ deviation) for deviation in together.values()) - apart


def dense(indices: Sequence[NDArray[np.integer]]) -> tuple[Sequence[NDArray[np.integer]], int]:
    """Image numbers and how many there are; renumbered if the largest is beyond any dataset.

    So an array with a place for each number takes no more memory than the files warrant, whatever they hold.
    """
    size = max((int(index.max(initial=-1)) + 1 for index in indices), default=0)
    if size <= MOST_IMAGES:
        return indices, size
    known, places = np.unique(np.concatenate(indices), return_inverse=True)
    return np.split(places, np.cumsum([len(index) for index in indices])[:-1]), len(known)


def images_won(streams: Sequence[Stream]) -> tuple[int, int]:
    """Images that b gets right more often than a over the seeds of one task, and the other way round."""
    indices, size = dense([stream.index for stream in streams])
    total = sum((np.bincount(i, s.difference, size) for i, s in zip(indices, streams, strict=True)), np.zeros(size))
    return int((total > 0).sum()), int((total < 0).sum())


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p values: below 0.05 holds for all of them together."""
    adjusted, running = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        running = max(running, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = running
    return adjusted
