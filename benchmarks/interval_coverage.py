"""Coverage of 95 % intervals on simulated batches with memory; prints the table of docs/report.md.

python -m benchmarks.interval_coverage
python -m benchmarks.interval_coverage --arch 300   (beside the stationary bootstrap of `arch`, which must be installed)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tta_bench.report.autocorrelation import spread_of_sum

Floats = NDArray[np.float64]
MEMORIES = (0.0, 0.5, 0.8, 0.9)
STREAMS = 4000
NOISE = 0.155  # by chance, on a batch of 20 images, between two methods of about 60 %
REPLICATES = 1000


def fading(rng: np.random.Generator, streams: int, batches: int, memory: float) -> Floats:
    """Each batch keeps a share of the one before."""
    found = rng.standard_normal((streams, batches))
    found[:, 0] /= np.sqrt(1 - memory**2)
    for i in range(1, batches):
        found[:, i] += memory * found[:, i - 1]
    return found


def moods(swing: float) -> Callable[[np.random.Generator, int, int, float], Floats]:
    """Good and bad times, each kept with a probability of `memory`, below the noise of batches or above it."""

    def make(rng: np.random.Generator, streams: int, batches: int, memory: float) -> Floats:
        found = rng.choice([-1.0, 1.0], (streams, batches))
        stays = rng.random((streams, batches)) < memory
        for i in range(1, batches):
            found[:, i] = np.where(stays[:, i], found[:, i - 1], found[:, i])
        noisy: Floats = swing * found + rng.normal(0, NOISE, (streams, batches))
        return noisy

    return make


KINDS = {"AR(1)": fading, "switching ±5 points": moods(0.05), "switching ±30 points": moods(0.3)}


def ours(batches: Floats) -> tuple[float, float]:
    """The interval of the sum by `report/autocorrelation.py`."""
    reach = spread_of_sum(batches - batches.mean()).reach
    return float(batches.sum()) - reach, float(batches.sum()) + reach


def stationary(batches: Floats) -> tuple[float, float]:
    """The interval of the sum by the stationary bootstrap with Politis and White's block length."""
    from arch.bootstrap import StationaryBootstrap, optimal_block_length

    length = float(optimal_block_length(batches)["stationary"].iloc[0])
    drawn = StationaryBootstrap(max(1.0, length), batches, seed=0).apply(np.sum, REPLICATES)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def entry(streams: Floats, interval: Callable[[Floats], tuple[float, float]]) -> str:
    """The share that covers, and the median width over that of an interval which knows the spread."""
    low, high = np.array([interval(batches) for batches in streams]).T
    covered = np.mean((low <= 0) & (high >= 0))
    return f"{covered:.2f} ({np.median(high - low) / (2 * 1.96 * streams.sum(1).std()):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, metavar="STREAMS", help="compare with arch on this many streams per entry")
    compared: int | None = parser.parse_args().arch
    ways = {"": ours} if compared is None else {", ours": ours, ", arch": stationary}
    print("| batches | " + " | ".join(f"correlation {memory:g}" for memory in MEMORIES) + " |")
    print("|---|" + "--:|" * len(MEMORIES))
    for name, make in KINDS.items():
        for batches in (60, 200, 780):
            rng = np.random.default_rng(batches)
            made = [make(rng, compared or STREAMS, batches, memory) for memory in MEMORIES]
            for way, interval in ways.items():
                print(
                    f"| {batches}, {name}{way} | " + " | ".join(entry(one, interval) for one in made) + " |", flush=True
                )


if __name__ == "__main__":
    main()
