"""The order of images within a segment, by their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tta_bench.checked.options import option
from tta_bench.checked.readers import BadValue, positive, ratio, whole
from tta_bench.errors import UserError
from tta_bench.streams.axes.base import Choice, Names, Segment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

TRIES = 200  # draws of a balanced Dirichlet order; NOTE's rule finds one in ten or never


@dataclass(frozen=True)
class Labels(Choice):
    """An order of images that have these labels."""

    axis = "labels"

    def order(self, labels: Ints, names: Names) -> Ints:
        """Places in `labels`, in stream order."""
        raise NotImplementedError

    def arrange(self, segment: Segment, labels: Ints) -> Ints:
        """The positions of a segment in stream order; `labels` are those of all positions."""
        import numpy as np

        if len(segment.positions) == 0:  # a gradual stream has more parts than a small task has images
            return segment.positions
        return segment.positions[np.asarray(self.order(labels[segment.positions], segment.names), np.int64)]


@dataclass(frozen=True)
class Shuffled(Labels):
    word = "iid"
    about = "shuffled"

    def arrange(self, segment: Segment, labels: Ints) -> Ints:
        return segment.positions if segment.is_shuffled else super().arrange(segment, labels)

    def order(self, labels: Ints, names: Names) -> Ints:
        from tta_bench.data.seeding import permutation

        return permutation(len(labels), *names)


@dataclass(frozen=True)
class Stored(Labels):
    word = "stored"
    about = "as the data stores them, which is their time where there is one: never shuffled"

    def order(self, labels: Ints, names: Names) -> Ints:
        import numpy as np

        return np.arange(len(labels))


@dataclass(frozen=True)
class Classes(Labels):
    word = "classes"
    about = "class after class"

    by: str = option("random", "the order of classes: random or index", choices=("random", "index"))

    def order(self, labels: Ints, names: Names) -> Ints:
        import numpy as np

        from tta_bench.data.seeding import permutation

        mixed = permutation(len(labels), *names, self.word)
        classes, number = np.unique(labels[mixed], return_inverse=True)
        rank = (
            permutation(len(classes), *names, self.word, "classes") if self.by == "random" else np.arange(len(classes))
        )
        return mixed[np.argsort(rank[number], kind="stable")]


@dataclass(frozen=True)
class ImbalancedDraws(Labels):
    word = "label-shift"
    about = "100 draws per class with replacement, each class in turn more likely than the others"

    imbalance: float = option(500_000.0, "how many times as likely", ratio)

    def order(self, labels: Ints, names: Names) -> Ints:
        from tta_bench.streams.orders import class_after_class

        return class_after_class(labels, self.imbalance, names)


def concentration(given: Any) -> float:
    """Delta of a Dirichlet distribution; far outside of these limits, logarithms of shares overflow."""
    found = ratio(given)
    if not 1e-6 <= found <= 1e6:
        raise BadValue(f"expected a number from 0.000001 to 1,000,000, got {given!r}")
    return found


def _slots(given: Any) -> str | int:
    if given == "classes":
        return "classes"
    try:
        return positive(given)
    except BadValue as error:
        raise BadValue(f"{error}, or 'classes'") from None


@dataclass(frozen=True)
class Dirichlet(Labels):
    word = "dirichlet"
    about = "each class spread over slots by a Dirichlet draw; in a slot, one class after the other"

    delta: float = option(None, "small: long runs of one class", concentration, metavar="0.1")
    slots: str | int = option(100, "at most so many slots as N or as classes; `classes`: as many as classes", _slots)
    balance: str = option("no", "yes: close a slot that has its share of images", choices=("yes", "no"))
    least: int = option(0, "draw again until each slot has so many images", whole)
    inside: str = option("shuffled", "order within a class: shuffled or stored", choices=("shuffled", "stored"))

    def order(self, labels: Ints, names: Names) -> Ints:
        import numpy as np

        from tta_bench.data.seeding import permutation
        from tta_bench.streams.draws import Draws

        mixed = np.arange(len(labels))
        if self.inside == "shuffled":
            mixed = permutation(len(labels), *names, self.word)
        _, number, counts = np.unique(labels[mixed], return_inverse=True, return_counts=True)
        by_class = mixed[np.argsort(number, kind="stable")]
        slots = len(counts) if self.slots == "classes" else min(len(counts), int(self.slots))
        draws = Draws(*names, self.word, "draws")
        held = self._spread(draws, counts, slots)
        rank = np.argsort(np.argsort(draws.uniform(slots, len(counts)), axis=1, kind="stable"), axis=1, kind="stable")
        slot = np.repeat(np.tile(np.arange(slots), len(counts)), held.ravel())
        kind = np.repeat(np.arange(len(counts)), counts)
        return by_class[np.lexsort((rank[slot, kind], slot))]

    def _spread(self, draws: Any, counts: Ints, slots: int) -> Ints:
        """How many images of each class each slot gets, [classes, slots]."""
        for _ in range(TRIES if self.least else 1):
            logs = draws.dirichlet_logs(self.delta, len(counts), slots)
            held = self._balanced(logs, counts) if self.balance == "yes" else _cut(logs, counts)
            if held.sum(0).min() >= self.least:
                return held
        raise UserError(
            f"{self}: no draw in {TRIES} tries has at least {self.least} images in each of {slots} slots "
            f"({int(counts.sum()):,} images of {len(counts)} classes): use a larger delta, fewer slots or least=0"
        )

    def _balanced(self, logs: Floats, counts: Ints) -> Ints:
        import numpy as np

        share = counts.sum() / logs.shape[1]
        held = np.zeros((len(counts), logs.shape[1]), np.int64)
        filled = np.zeros(logs.shape[1], np.int64)
        for kind, count in enumerate(counts):
            held[kind] = _cut(np.where(filled < share, logs[kind], -np.inf)[None], np.array([count]))[0]
            filled += held[kind]
        return held


def _cut(logs: Floats, counts: Ints) -> Ints:
    """Each class cut at the whole numbers below its cumulated shares."""
    import numpy as np

    from tta_bench.streams.draws import shares

    ends = np.floor(np.cumsum(shares(logs), axis=1) * counts[:, None]).astype(np.int64)
    ends[:, -1] = counts
    return np.diff(ends, axis=1, prepend=0)
