"""Times pairs side by side, batch by batch in alternating order, until all are clear or time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from tta_bench.measure.ratio import Ratio
from tta_bench.timing.ratio import Floats, estimate

Step = Callable[[int], float]  # number of a batch -> seconds
FIRST_CHECK = 6  # passes; fewer estimate their own spread badly
NOISE_PASSES = 30


@dataclass
class Pair:
    """Two ways to do a step, and the times they took on the same batches: [passes][batches]."""

    name: str
    base: Step
    other: Step
    base_seconds: list[list[float]] = field(default_factory=list)
    other_seconds: list[list[float]] = field(default_factory=list)

    def run(self, batches: int) -> None:
        """One pass; the order alternates from batch to batch and from pass to pass."""
        turn = len(self.base_seconds)
        base: list[float] = []
        other: list[float] = []
        for number in range(batches):
            ways = [(self.base, base), (self.other, other)]
            for step, seconds in ways if (turn + number) % 2 else reversed(ways):
                seconds.append(step(number))
        self.base_seconds.append(base)
        self.other_seconds.append(other)

    @property
    def log_ratios(self) -> Floats:
        ratios: Floats = np.array(self.other_seconds) / np.array(self.base_seconds)
        return np.log(ratios)

    @property
    def ratio(self) -> Ratio:
        return estimate(self.log_ratios)

    @property
    def seconds(self) -> float:
        """Seconds of one pass of `other`: the sum of the medians of each batch."""
        return float(np.median(self.other_seconds, axis=0).sum())


class Budget:
    """A time limit, counted from the start of the command."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def left(self) -> float:
        return self._end - self._clock()


def measure(
    pairs: Iterable[Pair],
    batches: int,
    is_clear: Callable[[Pair], bool],
    budget: Budget,
    on_pass: Callable[[int, int], None] = lambda passes, open_: None,
) -> None:
    """Run passes of all pairs, then of those that are not clear yet, while the budget lasts.

    Every pair gets its first passes whatever the budget: without them nothing can be estimated.
    """
    pairs = list(pairs)
    passes, next_check, longest = 0, FIRST_CHECK, 0.0
    while pairs and (passes < FIRST_CHECK or budget.left > longest):
        start = budget.left
        for pair in pairs:
            pair.run(batches)
        passes += 1
        longest = max(longest, start - budget.left)
        if passes >= next_check:
            next_check = passes + max(1, passes // 5)  # each check is a chance to be wrong, so they become rarer
            pairs = [pair for pair in pairs if not is_clear(pair)]
        on_pass(passes, len(pairs))


def noise(base: Step, twin: Step, batches: int) -> Ratio:
    """The ratio of two identical runs on this machine now; its reach is the noise floor."""
    pair = Pair("noise", base, twin)
    for _ in range(NOISE_PASSES):
        pair.run(batches)
    return pair.ratio
