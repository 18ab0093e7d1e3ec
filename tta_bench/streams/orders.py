"""Stream orders beyond a plain shuffle, as positions in the joined parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.seeding import permutation, seed_of
from tta_bench.errors import UserError

DRAWS_PER_CLASS = 100


def one_after_the_other(sizes: Sequence[int], names: tuple[object, ...], *, share: bool = False) -> NDArray[np.int64]:
    """Shuffled parts one after the other; with `share`, each image appears in only one of the parts."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    orders = [permutation(size, *names, i) for i, size in enumerate(sizes)]
    if share:
        if len(set(sizes)) > 1:
            raise UserError(f"gradual severities require the same images at each, and there are {_listed(sizes)}")
        common = permutation(sizes[0], *names)
        orders = [common[i :: len(sizes)] for i in range(len(sizes))]
    return np.concatenate([start + order for start, order in zip(starts, orders, strict=True)]).astype(np.int64)


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)


def class_after_class(labels: NDArray[np.int64], imbalance: float, names: tuple[object, ...]) -> NDArray[np.int64]:
    """Draw with replacement, one step per class: its class is `imbalance` times as likely as each other class."""
    rng = np.random.Generator(np.random.PCG64(seed_of(*names)))
    classes, counts = np.unique(labels, return_counts=True)
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
    order = []
    for step in permutation(len(classes), *names):
        weights = np.ones(len(classes))
        weights[step] = imbalance
        drawn = rng.choice(len(classes), DRAWS_PER_CLASS, p=weights / weights.sum())
        order += [members[c][rng.integers(len(members[c]))] for c in drawn]
    return np.array(order, dtype=np.int64)
