"""A walk through pairs of corruptions on which Source's accuracy stays near a target.

After CCC (Press et al., "RDumb", NeurIPS 2023). On the way from corruption A to corruption B, each step makes A a
little weaker or B a little stronger, from A alone to B alone; then B goes over to the next one. Among all such ways the
walk takes the one whose accuracies differ least from the target. Corruptions that stay too mild for a target even at
severity 5 are left out, as the authors leave out brightness and JPEG compression.

Departs from CCC: it measures Source on every pair at every two severities, some 90,000 times. Here Source is measured
on single corruptions only, and a pair is taken to keep the product of the shares of accuracy that its two keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.seeding import permutation
from tta_bench.errors import UserError

SEVERITIES = tuple(step / 2 for step in range(11))

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Source's accuracy under each corruption at each of SEVERITIES, from 0 to 1; the first one is on clean images."""

    model: str
    weights: str  # their hash
    images: int  # that each accuracy was measured on
    classes: int
    accuracy: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in self.accuracy.items():
            if len(values) != len(SEVERITIES) or not all(0 <= value <= 1 for value in values):
                raise ValueError(f"accuracy: {name}: expected {len(SEVERITIES)} numbers from 0 to 1")

    def kept(self, corruption: str) -> Floats:
        """The share of the clean accuracy above chance that is left at each severity; never rises again."""
        values = np.array(self.accuracy[corruption])
        chance = 1 / self.classes
        share: Floats = np.minimum.accumulate(np.clip((values - chance) / (values[0] - chance), 0, 1))
        return share


class Point(NamedTuple):
    """Two corruptions, one after the other, each at its severity."""

    first: str
    first_severity: float
    second: str
    second_severity: float

    @property
    def stronger(self) -> str:
        """The corruption that an image is scored under."""
        return self.first if self.first_severity >= self.second_severity else self.second


def strong_enough(tasks: Sequence[str], found: Calibration, target: float) -> list[str]:
    """The tasks whose accuracy at severity 5 is nearer to the target than to the clean accuracy."""
    for task in tasks:
        if task not in found.accuracy:
            raise UserError(f"--scenario ccc requires the corruptions of ImageNet-C, which '{task}' is not one of")
    kept = [task for task in tasks if 2 * min(found.accuracy[task]) < found.accuracy[task][0] + target]
    if len(kept) < 2:
        raise UserError(
            f"--scenario ccc requires two tasks that bring Source's accuracy near {100 * target:.0f} %, found "
            f"{len(kept)} of {len(tasks)}: choose other --tasks, or an easier --difficulty"
        )
    return kept


def walk(tasks: Sequence[str], found: Calibration, target: float, laps: int, names: tuple[object, ...]) -> list[Point]:
    """All points in order: each lap passes all tasks once, in an order of its own, drawn with `names`."""
    tour: list[str] = []
    for lap in range(laps):
        order = [tasks[i] for i in permutation(len(tasks), *names, "lap", lap)]
        tour += order[1:] + order[:1] if tour and tour[-1] == order[0] else order
    after = [*tour[1:], tour[0] if tour[0] != tour[-1] else tour[1]]
    return [point for pair in zip(tour, after, strict=True) for point in _way(*pair, found, target)]


def _way(first: str, second: str, found: Calibration, target: float) -> list[Point]:
    """From one corruption alone to the other alone, without the last point: the next way starts there."""
    kept: Mapping[str, Floats] = {name: found.kept(name) for name in (first, second)}
    clean, chance = found.accuracy[first][0], 1 / found.classes
    start, end = (int(np.abs(chance + (clean - chance) * kept[name] - target).argmin()) for name in (first, second))
    pairs = chance + (clean - chance) * np.outer(kept[first][: start + 1], kept[second][: end + 1])
    places = _cheapest(np.abs(pairs - target))
    return [Point(first, SEVERITIES[i], second, SEVERITIES[j]) for i, j in places[:-1]]


def _cheapest(cost: Floats) -> list[tuple[int, int]]:
    """The cheapest way from the last row of column 0 to row 0 of the last column, by single steps up or right."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)  # with a border; column j of `cost` is column j + 1 here
    for i in range(rows - 1, -1, -1):
        for j in range(1, columns + 1):
            is_start = (i, j) == (rows - 1, 1)
            total[i, j] = cost[i, j - 1] + (0 if is_start else min(total[i + 1, j], total[i, j - 1]))
    i, j = 0, columns
    way = [(0, columns - 1)]
    while (i, j) != (rows - 1, 1):
        i, j = (i + 1, j) if total[i + 1, j] <= total[i, j - 1] else (i, j - 1)
        way.append((i, j - 1))
    return way[::-1]
