"""How many images of each class there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tta_bench.checked.options import option
from tta_bench.checked.readers import ratio
from tta_bench.errors import UserError
from tta_bench.streams.axes.base import Choice, Names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

MOST_IN_TOP = 0.9  # of images in the largest tenth of the classes; LAME draws shares again above it
TRIES = 200  # draws of shares; of a thousand classes with a small exponent, none stays below


@dataclass(frozen=True)
class Prior(Choice):
    """Which images of a task are shown."""

    axis = "prior"

    def keep(self, labels: Ints, names: Names) -> Ints:
        """Places in `labels`, ascending; a place may come several times if the choice draws with replacement."""
        raise NotImplementedError


@dataclass(frozen=True)
class Exponential(Prior):
    word = "long-tail"
    about = "class sizes fall exponentially; the images left out are never shown"

    factor: float = option(None, "how many times as many images the first class has as the last", ratio, metavar="10")
    head: str = option("first", "the largest class: the first, or random for each task", choices=("first", "random"))

    def __post_init__(self) -> None:
        if not 1 <= self.factor <= 1e6:
            raise UserError(f"{self.word}: factor: expected a number from 1 to 1,000,000, got {self.factor:g}")

    def keep(self, labels: Ints, names: Names) -> Ints:
        import numpy as np

        from tta_bench.data.occurrences import earlier
        from tta_bench.data.seeding import permutation

        mixed = permutation(len(labels), *names, self.word)
        _, number, counts = np.unique(labels[mixed], return_inverse=True, return_counts=True)
        steps = np.arange(len(counts)) / max(len(counts) - 1, 1)
        # From the largest class, not from class 0 as published: its size may be anything in an uneven sample.
        wanted = np.floor(counts.max() * self.factor**-steps + 1e-9).astype(np.int64)
        if self.head == "random":
            wanted = wanted[permutation(len(counts), *names, self.word, "classes")]
        return np.sort(mixed[earlier(number) < wanted[number]])


@dataclass(frozen=True)
class Zipf(Prior):
    word = "zipf"
    about = "class shares drawn from Zipf's law, images with replacement"

    a: float = option(2.0, "the exponent, from 1.1", ratio)

    def __post_init__(self) -> None:
        if not 1.1 <= self.a <= 100:
            raise UserError(f"{self.word}: a: expected a number from 1.1 to 100, got {self.a:g}")

    def keep(self, labels: Ints, names: Names) -> Ints:
        import numpy as np

        from tta_bench.streams.draws import Draws

        draws = Draws(*names, self.word)
        _, counts = np.unique(labels, return_counts=True)
        for _ in range(TRIES):
            weights = draws.zipf(self.a, len(counts)).astype(np.float64)
            top = np.sort(weights)[::-1][: max(1, len(counts) // 10)].sum() / weights.sum()
            if top < MOST_IN_TOP or len(counts) == 1:
                break
        else:
            raise UserError(
                f"{self}: in {TRIES} tries, a tenth of {len(counts)} classes always has 90 % of the images: "
                f"use a larger exponent"
            )
        kind = np.searchsorted(np.cumsum(weights / weights.sum()), draws.uniform(len(labels)))
        kind = np.minimum(kind, len(counts) - 1)
        place = (draws.uniform(len(labels)) * counts[kind]).astype(np.int64)
        return np.sort(np.argsort(labels, kind="stable")[(np.cumsum(counts) - counts)[kind] + place])
