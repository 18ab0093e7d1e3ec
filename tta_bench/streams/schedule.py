"""Which batches of a live stream a method adapts to: exact arithmetic, so the same on every machine.

Time is counted in arrivals: batch i arrives at time i and waits until batch i + 1 arrives. A batch that costs c
forwards of Source keeps the method busy for speed × c. If the method is free before the next batch arrives, it adapts
to the waiting one; otherwise that batch is only predicted. Fractions carry over, so a method adapts to 1 in speed × c
batches: a method 1 % too slow misses 1 batch in 101.

With `busy: released` the rule is that of the published code (Alfarra et al., ICML 2024): each adaptation is rounded up
to whole batches and misses ceil(speed × c) - 1 of them, so a method 1 % too slow misses every second batch.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from tta_bench.records.live import Live

Turn = Literal["adapt", "busy", "rest"]


class Schedule:
    """Decides batch by batch. The cost of an adaptation is needed only when it is done."""

    def __init__(self, live: Live) -> None:
        self.adapted: list[int] = []  # numbers of batches, from 0
        self._live = live
        self._speed = exact(live.speed)
        self._batch = -1  # that arrived last
        self._free = Fraction(0)  # when the current adaptation ends

    def next(self, *, is_frozen: bool = False) -> Turn:
        """What the method does with the next batch: adapt, be busy, or rest (`adapt_every`, or frozen for good)."""
        self._batch += 1
        if is_frozen:
            return "rest"
        if self._free >= self._batch + 1:
            return "busy"
        if self.adapted and self._batch - self.adapted[-1] < self._live.adapt_every:
            return "rest"
        self.adapted.append(self._batch)
        return "adapt"

    def spend(self, forwards: int, backwards: int, images: int) -> None:
        """Note what the adaptation to the last batch took, in passes of single images."""
        live = self._live
        counted = (forwards + exact(live.backward) * backwards) / images
        time = self._speed * (counted if live.cost is None else exact(live.cost))
        if live.busy == "released":
            self._free = Fraction(self._batch + max(1, math.ceil(time)))
        else:
            self._free = max(self._free, Fraction(self._batch)) + time

    @property
    def may_miss(self) -> bool:
        """Whether a batch may arrive while the method adapts to the present one."""
        if self._live.cost is None:
            return self._speed > 0
        start = max(self._free, Fraction(self._batch))
        return start + self._speed * exact(self._live.cost) >= self._batch + 2


def exact(number: float) -> Fraction:
    """The decimal number that is printed: 1.2 is 6/5, not its nearest binary fraction."""
    return Fraction(repr(number))
