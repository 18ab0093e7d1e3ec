"""Coverage of 95 % intervals on simulated batches with memory; prints the table of docs/report.md.

python -m benchmarks.interval_coverage
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tta_bench.report.serial import spread_of_sum

Floats = NDArray[np.float64]
MEMORIES = (0.0, 0.5, 0.8, 0.9)
STREAMS = 4000
NOISE = 0.155  # by chance, on a batch of 20 images, between two methods of about 60 %


def fading(rng: np.random.Generator, batches: int, memory: float) -> Floats:
    """Each batch keeps a share of the one before."""
    found = rng.standard_normal((STREAMS, batches))
    found[:, 0] /= np.sqrt(1 - memory**2)
    for i in range(1, batches):
        found[:, i] += memory * found[:, i - 1]
    return found


def moods(swing: float) -> Callable[[np.random.Generator, int, float], Floats]:
    """Good and bad periods, each continued with probability `memory`, weaker or stronger than the noise of batches."""

    def make(rng: np.random.Generator, batches: int, memory: float) -> Floats:
        found = rng.choice([-1.0, 1.0], (STREAMS, batches))
        stays = rng.random((STREAMS, batches)) < memory
        for i in range(1, batches):
            found[:, i] = np.where(stays[:, i], found[:, i - 1], found[:, i])
        noisy: Floats = swing * found + rng.normal(0, NOISE, (STREAMS, batches))
        return noisy

    return make


KINDS = {"AR(1)": fading, "switching ±5 points": moods(0.05), "switching ±30 points": moods(0.3)}


def entry(streams: Floats) -> str:
    """The share of intervals that cover, and their median width relative to one with the true spread."""
    reach = np.array([spread_of_sum(batches - batches.mean()).reach for batches in streams])
    sums = streams.sum(1)
    return f"{np.mean(np.abs(sums) <= reach):.2f} ({np.median(reach) / (1.96 * sums.std()):.1f})"


def main() -> None:
    print("| batches | " + " | ".join(f"correlation {memory:g}" for memory in MEMORIES) + " |")
    print("|---|" + "--:|" * len(MEMORIES))
    for name, make in KINDS.items():
        for batches in (60, 200, 780):
            rng = np.random.default_rng(batches)
            print(f"| {batches}, {name} | " + " | ".join(entry(make(rng, batches, m)) for m in MEMORIES) + " |")


if __name__ == "__main__":
    main()
