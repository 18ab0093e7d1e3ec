"""Labels, and mixed tasks, that follow each other as Markov chains (chains.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tta_bench.checked.options import option
from tta_bench.checked.readers import BadValue, positive, ratio
from tta_bench.errors import UserError
from tta_bench.streams.axes.base import Names, Segment
from tta_bench.streams.axes.labels import Labels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

IID, ALL = "iid", "all"


def _stay(given: Any) -> str | float:
    found = given if given == IID else _chance(given)
    if found == 1:
        raise BadValue(f"expected {IID} or a number between 0 and 1, got {given!r}: for class after class use classes")
    return found


def _chance(given: Any) -> str | float:
    if given == IID:
        return IID
    try:
        found = ratio(given)
    except BadValue:
        found = 2.0
    if found > 1:
        raise BadValue(f"expected {IID} or a number above 0 and at most 1, got {given!r}")
    return found


def _cap(given: Any) -> str | int:
    try:
        return ALL if given == ALL else positive(given)
    except BadValue as error:
        raise BadValue(f"{error}, or '{ALL}'") from None


def _factor(given: Any) -> float:
    found = ratio(given)
    if not 1 <= found <= 1e6:
        raise BadValue(f"expected a number from 1 to 1,000,000, got {given!r}")
    return found


@dataclass(frozen=True)
class Markov(Labels):
    word = "markov"
    about = "classes, and mixed tasks, stay by chance; a class shows its images again when it has shown all of them"

    stay: str | float = option(IID, "the chance that the next class is the same; iid: one of all classes", _stay)
    ratio: float = option(1.0, "how many times as often the first class comes as the last", _factor)
    task_stay: str | float = option(IID, "as stay, of mixed tasks; 1: one task after the other", _chance)
    task_ratio: float = option(1.0, "as ratio, of mixed tasks", _factor)
    cap: str | int = option(ALL, "images of the commonest class in a task; all: as many as there are", _cap)

    @property
    def moves_tasks(self) -> bool:
        """Whether it says how tasks follow each other."""
        return self.task_stay != IID or self.task_ratio != 1

    def order(self, labels: Ints, names: Names) -> Ints:
        import numpy as np

        return self._order(labels, np.zeros(len(labels), np.int64), names)

    def arrange(self, segment: Segment, labels: Ints) -> Ints:
        if segment.tasks is None or not len(segment.positions):
            return super().arrange(segment, labels)
        return segment.positions[self._order(labels[segment.positions], segment.tasks, segment.names)]

    def _order(self, labels: Ints, tasks: Ints, names: Names) -> Ints:
        import numpy as np

        from tta_bench.streams.chains import LONGEST, Chain, images, visit
        from tta_bench.streams.draws import Draws

        kinds, number = np.unique(labels, return_inverse=True)
        state, places = tasks * len(kinds) + number, int(tasks.max()) + 1
        counts = np.bincount(state, minlength=places * len(kinds)).reshape(places, len(kinds))
        cap = int(counts.max()) if self.cap == ALL else int(self.cap)
        if (steps := cap * counts.size) > LONGEST:
            raise UserError(f"{self}: up to {steps:,} steps are more than {LONGEST:,}: use a smaller cap")
        task = Chain.of(places, _number(self.task_stay), self.task_ratio)
        kind = Chain.of(len(kinds), _number(self.stay), self.ratio)
        visited = visit(task, kind, counts, cap, Draws(*names, self.word, "draws"))
        if not len(visited):
            raise UserError(f"{self}: shows no image, because its ratios leave none: use a larger cap")
        return images(visited, state, (*names, self.word))


def _number(stay: str | float) -> float | None:
    return None if stay == IID else float(stay)
