"""Random numbers of corruptions: a private generator per image, seeded by its purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.seeding import seed_of

Size = tuple[int, ...]


def generator(name: str, severity: int, image_id: str) -> np.random.Generator:
    """A new generator that depends on these three arguments only."""
    return np.random.Generator(np.random.PCG64(seed_of(name, severity, image_id)))


class Generators:
    """The generators of several images as one: each makes every draw, and the draws are stacked.

    `size` is the size of one image's draw, so a family written for one image's generator draws the same numbers here,
    with the images as a first axis.
    """

    def __init__(self, each: Sequence[np.random.Generator]) -> None:
        self._each = each

    def standard_normal(self, size: Size, dtype: type[np.float32]) -> NDArray[np.float32]:
        return self._filled(size, lambda rng, out: rng.standard_normal(out=out, dtype=dtype))

    def random(self, size: Size, dtype: type[np.float32]) -> NDArray[np.float32]:
        return self._filled(size, lambda rng, out: rng.random(out=out, dtype=dtype))

    def uniform(self, low: float, high: float, size: Size = ()) -> NDArray[np.float64]:
        return np.stack([np.asarray(rng.uniform(low, high, size)) for rng in self._each])

    def integers(self, low: int, high: int | None = None, size: Size = ()) -> NDArray[np.int64]:
        return np.stack([np.asarray(rng.integers(low, high, size)) for rng in self._each])

    def poisson(self, expected: NDArray[Any]) -> NDArray[np.int64]:
        return np.stack([rng.poisson(image) for rng, image in zip(self._each, expected, strict=True)])

    def _filled(
        self, size: Size, fill: Callable[[np.random.Generator, NDArray[np.float32]], object]
    ) -> NDArray[np.float32]:
        drawn = np.empty((len(self._each), *size), np.float32)
        for rng, out in zip(self._each, drawn, strict=True):
            fill(rng, out)
        return drawn


Chance = np.random.Generator | Generators
"""One image's generator, or those of a stack of images."""
