"""Intervals cover and tests match their definitions, on simulated streams with known differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from tta_bench.measure.student import sign_test
from tta_bench.report.autocorrelation import spread_of_sum
from tta_bench.report.stats import Blocks, Stream, estimate, holm, images_won

TRUTH = 0.05  # b is right with probability 0.65 on average, a with 0.6


def simulate(
    rng: np.random.Generator, *, batches: int = 60, size: int = 20, memory: float = 0.0, seeds: int = 1, tasks: int = 1
) -> list[Blocks]:
    """Streams in which b wanders between good and bad times, and some images suit b whatever the seed and the task."""
    n = batches * size
    suits_b = 0.3 * rng.choice([-1.0, 1.0], n)
    streams = []
    for task in range(tasks):
        for seed in range(seeds):
            order = rng.permutation(n)
            mood, swing = np.empty(batches), rng.choice([-1.0, 1.0], batches)
            stays = rng.random(batches) < memory
            for i in range(batches):  # a mood stays with probability `memory`, or is drawn again
                mood[i] = mood[i - 1] if i and stays[i] else swing[i]
            a = rng.random(n) < 0.6
            b = rng.random(n) < 0.65 + suits_b[order] + (0.05 * np.repeat(mood, size) if memory else 0)
            change = b.astype(np.int8) - a.astype(np.int8)
            streams.append(Blocks(Stream(f"task{task}", "images", seed, change, order, size)))
    return streams


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"memory": 0.5},
        {"memory": 0.8, "batches": 200},
        {"memory": 0.9},
        {"seeds": 3},
        {"seeds": 3, "tasks": 4, "memory": 0.5},
        {"batches": 6},
    ],
    ids=str,
)
def test_intervals_cover_the_truth(shape: dict[str, float]) -> None:
    rng = np.random.default_rng(0)
    found = [estimate(simulate(rng, **shape), replicates=400) for _ in range(200)]  # type: ignore[arg-type]
    covered = np.mean([e.low <= TRUTH <= e.high for e in found])
    assert covered >= 0.90, f"{covered:.3f} of the intervals cover"
    width = np.median([e.high - e.low for e in found]) / (2 * 1.96 * np.std([e.difference for e in found]))
    assert width < 1.75, f"intervals are {width:.2f} times as wide as they need be"


@pytest.mark.parametrize("batches", [60, 200])
@pytest.mark.parametrize("pace", [0.0, 0.5, 0.8, 0.9])
def test_the_spread_of_batches_with_a_memory_is_found(pace: float, batches: int) -> None:
    streams = np.random.default_rng(0).standard_normal((4000, batches))
    streams[:, 0] /= np.sqrt(1 - pace**2)
    for i in range(1, batches):  # each batch keeps a share of the one before
        streams[:, i] += pace * streams[:, i - 1]
    reach = np.array([spread_of_sum(stream - stream.mean()).reach for stream in streams])
    sums = streams.sum(1)
    assert np.mean(np.abs(sums) <= reach) >= 0.92
    assert np.median(reach) < (1.6 if pace < 0.8 else 2.3) * 1.96 * np.std(sums), "no useless caution"


@pytest.mark.parametrize("batches", [20, 60, 200])
def test_a_learning_curve_is_not_memory(batches: int) -> None:
    """Getting better along the stream is no uncertainty: the interval stays of the order of the noise."""
    rng = np.random.default_rng(0)
    learnt = 1 - np.exp(-np.arange(batches) / (0.3 * batches))
    widths = []
    for _ in range(200):
        batch = 3 * (learnt - learnt.mean()) + rng.standard_normal(batches)
        widths.append(spread_of_sum(batch - batch.mean()).reach)
    assert np.median(widths) < 3.5 * 1.96 * np.sqrt(batches)
    assert max(widths) < 7 * 1.96 * np.sqrt(batches)


def test_independent_samples_would_claim_too_much() -> None:
    """What the blocks and the shared images are for: without them the interval is far too short."""
    rng = np.random.default_rng(0)
    misses = 0
    for _ in range(200):
        streams = simulate(rng, seeds=3, tasks=4, memory=0.5)
        difference = np.concatenate([blocks.stream.difference for blocks in streams])
        misses += abs(difference.mean() - TRUTH) > 1.96 * difference.std() / np.sqrt(len(difference))
    assert misses / 200 > 0.15  # where 0.05 is promised


def test_under_no_difference_p_values_are_calibrated() -> None:
    rng = np.random.default_rng(0)
    small = 0
    for _ in range(300):
        a, b = rng.random((2, 1200)) < 0.6
        stream = Stream("t", "i", 0, b.astype(np.int8) - a.astype(np.int8), np.arange(1200), 20)
        small += estimate([Blocks(stream)], replicates=0).p < 0.05
    assert small / 300 < 0.09


def test_a_large_difference_is_found() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(2000) < 0.5, rng.random(2000) < 0.7
    found = estimate([Blocks(Stream("t", "i", 0, b.astype(np.int8) - a.astype(np.int8), np.arange(2000), 50))])
    assert found.low > 0.1
    assert found.p < 1e-3


def test_the_same_twice_gives_the_same() -> None:
    streams = [simulate(np.random.default_rng(3), seeds=2, tasks=2) for _ in range(2)]
    assert estimate(streams[0]) == estimate(streams[1])


def test_tasks_weigh_alike_however_many_seeds_they_have() -> None:
    def constant(task: str, seed: int, change: int) -> Blocks:
        return Blocks(Stream(task, "i", seed, np.full(100, change, np.int8), np.arange(100), 10))

    found = estimate([constant("a", 0, 1), constant("a", 1, 1), constant("a", 2, 1), constant("b", 0, 0)])
    assert found.difference == pytest.approx(0.5)


@pytest.mark.parametrize("batches", [1, 2, 3, 5, 12])
def test_agreeing_on_a_short_stream_proves_nothing(batches: int) -> None:
    n = 10 * batches
    found = estimate([Blocks(Stream("t", "i", 0, np.zeros(n, np.int8), np.arange(n), 10))])
    assert found.low < 0 < found.high
    assert found.p == 1.0


def test_a_short_last_batch_counts_its_samples_only() -> None:
    change = np.array([1] * 10 + [0] * 10 + [-1], np.int8)
    assert Blocks(Stream("t", "i", 0, change, np.arange(21), 10)).mean == pytest.approx(9 / 21)


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (8, 2), (2, 8), (60, 40), (5000, 5200), (25_000, 24_000)])
def test_mcnemar_is_the_exact_binomial_test(counts: tuple[int, int]) -> None:
    b, a = counts
    expected = min(1.0, 2 * scipy_stats.binom.cdf(min(a, b), a + b, 0.5))
    assert sign_test(b, a) == pytest.approx(expected, rel=1e-6)


def test_mcnemar_by_hand() -> None:
    assert sign_test(8, 2) == pytest.approx(2 * (1 + 10 + 45) / 2**10)


def test_images_count_once_over_seeds() -> None:
    first = Stream("t", "i", 0, np.array([1, 1, -1, 0], np.int8), np.array([0, 1, 2, 3]), 2)
    again = Stream("t", "i", 1, np.array([0, 1, 1, -1], np.int8), np.array([3, 2, 0, 1]), 2)
    # image 0: 1 + 1, image 1: 1 - 1, image 2: -1 + 1, image 3: 0
    assert images_won([first, again]) == (1, 0)


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holm_by_hand(p: list[float], adjusted: list[float]) -> None:
    assert holm(p) == pytest.approx(adjusted)
