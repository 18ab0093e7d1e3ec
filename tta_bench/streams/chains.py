"""Markov chains over tasks and classes, as UniTTA defines them.

A chain stays where it is by a given chance, and otherwise goes to any other state, all alike. Uneven shares come from
uneven chances to stay where such chances exist. Where they do not, a state is closed when it is full, and steps into
it are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.occurrences import earlier
from tta_bench.data.seeding import permutation
from tta_bench.errors import UserError
from tta_bench.streams.draws import Draws

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LONGEST = 20_000_000  # steps, which are all in memory
TRIES = 200  # before states that never fill are given up


class Chain(NamedTuple):
    """How one of the two chains moves, and how often each of its states is to come."""

    leave: Floats  # the chance of each state to go on to another
    shares: Floats  # relative to the first state's
    is_exact: bool  # whether the chances give these shares by themselves

    @classmethod
    def of(cls, count: int, stay: float | None, factor: float) -> Chain:
        """A chain of so many states, whose first comes `factor` times as often as its last; None stays as by chance."""
        leave = 1 - (1 / count if stay is None else stay)
        shares = factor ** -(np.arange(count) / max(count - 1, 1))
        is_exact = leave > 0 and (factor == 1 or factor * leave <= 1 - 1 / count)
        return cls(leave / shares if is_exact else np.full(count, leave), shares, is_exact)

    def runs(self, draws: Draws, count: int, start: int) -> tuple[Ints, Ints]:
        """So many visits of states from `start` on, and how long each lasts; a single state has one visit."""
        states = len(self.leave)
        if states == 1:
            return np.zeros(1, np.int64), np.full(1, LONGEST)
        jumps = 1 + (draws.uniform(count - 1) * (states - 1)).astype(np.int64)
        found = (start + np.cumsum(np.append(0, jumps))) % states
        lengths = 1 + np.floor(np.log(draws.uniform(count)) / np.log1p(-self.leave[found]))
        return found, np.minimum(lengths, LONGEST).astype(np.int64)

    def walk(self, draws: Draws, steps: int, start: int = 0) -> Ints:
        """So many steps, whatever states they fill."""
        found: list[Ints] = []
        while steps > 0:
            states, lengths = self.runs(draws, 64 + int(1.1 * steps * self.leave.mean()), start)
            lengths = np.clip(steps - (np.cumsum(lengths) - lengths), 0, lengths)
            found.append(np.repeat(states, lengths))
            steps, start = steps - int(lengths.sum()), int(states[-1])
        return np.concatenate([np.zeros(0, np.int64), *found])

    def fill(self, draws: Draws, totals: Ints, start: int = 0) -> Ints:
        """Steps until each state has come as often as `totals` says; closed states are passed without a step."""
        found, left = [np.zeros(0, np.int64)], totals.copy()
        while left.any():
            states, lengths = self.runs(draws, 64 + int(len(left) * left.max() * self.leave[0]), start)
            lengths = np.minimum(lengths, left.max())
            order = np.argsort(states, kind="stable")
            before = np.cumsum(lengths[order]) - lengths[order]
            firsts = np.searchsorted(states[order], states[order])
            lengths[order] = np.clip(left[states[order]] - (before - before[firsts]), 0, lengths[order])
            found.append(np.repeat(states, lengths))
            left -= np.bincount(found[-1], minlength=len(left))
            start = int(states[-1])
        return np.concatenate(found)


def visit(task: Chain, kind: Chain, counts: Ints, cap: int, draws: Draws) -> Ints:
    """The states of a stream in order, each as task · classes + class.

    `counts` are the images of each class in each task, [tasks, classes]. Empty states never come. Where both chains are
    exact, the stream ends when a state has come `cap` times; else when each has come as often as its share of `cap`.
    """
    places, kinds = counts.shape
    wanted = np.round(cap * np.outer(task.shares, kind.shares)).astype(np.int64) * (counts > 0)
    if places == 1 or not task.leave[0]:
        found = _in_turn(draws, kind, wanted)
    elif task.is_exact and kind.is_exact:
        found = _both(draws, task, kind, counts.size * cap)
        found = found[counts.ravel()[found] > 0]
        return found[: 1 + int(np.argmax(np.append(earlier(found) == cap - 1, True)))]
    elif kind.is_exact:
        areas = task.fill(draws, wanted.sum(1))
        found = areas * kinds + kind.walk(draws, len(areas))
    elif task.is_exact:
        classes = kind.fill(draws, wanted.sum(0))
        found = task.walk(draws, len(classes)) * kinds + classes
    else:
        found = _fill_both(draws, task, kind, wanted.ravel())
    return found[counts.ravel()[found] > 0]


def _both(draws: Draws, task: Chain, kind: Chain, steps: int) -> Ints:
    return task.walk(draws, steps) * len(kind.leave) + kind.walk(draws, steps)


def _in_turn(draws: Draws, kind: Chain, wanted: Ints) -> Ints:
    """Task after task, each from another class."""
    kinds = wanted.shape[1]
    found = []
    for place, own in enumerate(wanted):
        start = draws.below(kinds) if place else 0
        classes = kind.walk(draws, int(own.sum()), start) if kind.is_exact else kind.fill(draws, own, start)
        found.append(place * kinds + classes)
    return np.concatenate(found)


def _fill_both(draws: Draws, task: Chain, kind: Chain, wanted: Ints) -> Ints:
    found, left = [np.zeros(0, np.int64)], wanted.copy()
    for _ in range(TRIES):
        if not left.any():
            return np.concatenate(found)
        visited = _both(draws, task, kind, 64 + len(left) * int(left.max()))
        found.append(visited[earlier(visited) < left[visited]])
        left -= np.bincount(found[-1], minlength=len(left))
    raise UserError("markov: some classes of some tasks never fill: use smaller ratios or chances to stay")


def images(states: Ints, own: Ints, names: tuple[object, ...]) -> Ints:
    """An image for each state; `own` is the state of each image.

    A state shows its images in one random order, and again from the first when it has shown all.
    """
    counts = np.bincount(own, minlength=int(states.max()) + 1)
    mixed = permutation(len(own), *names)
    rings = mixed[np.argsort(own[mixed], kind="stable")]
    return rings[(np.cumsum(counts) - counts)[states] + earlier(states) % counts[states]]
