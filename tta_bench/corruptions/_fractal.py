"""Clouds by midpoint displacement, for fog and for the uneven light on ice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tta_bench.corruptions._random import Chance

Field = NDArray[np.float64]


def plasma(side: int, decay: float, rng: Chance) -> Field:
    """A [side, side] fractal from 0 to 1 whose opposite edges meet, or one per image; `side` is a power of two.

    Diamond-square: from one height, fill in the middles of squares, then of edges, with the mean of their
    four neighbours and a random push that falls by decay² as the grid gets finer. A larger decay is a
    smoother cloud.
    """
    # The release multiplies the push by a factor that already bounds it, hence the square.
    push, step = 1.0, side
    noise = rng.uniform(-1, 1, size=(side, side))
    heights = np.zeros_like(noise)
    while step >= 2:
        middle = slice(step // 2, None, step)
        whole = slice(None, None, step)
        corners = heights[..., whole, whole]
        across = corners + _after(corners, axis=-1)
        along = corners + _after(corners, axis=-2)
        centres = (across + _after(across, axis=-2)) / 4 + push * noise[..., middle, middle]
        heights[..., middle, middle] = centres
        upright = across + centres + _before(centres, axis=-2)
        level = along + centres + _before(centres, axis=-1)
        heights[..., whole, middle] = upright / 4 + push * noise[..., whole, middle]
        heights[..., middle, whole] = level / 4 + push * noise[..., middle, whole]
        push /= decay**2
        step //= 2
    heights -= heights.min(axis=(-2, -1), keepdims=True)
    heights /= heights.max(axis=(-2, -1), keepdims=True)
    return heights


def _after(field: Field, axis: int) -> Field:
    """Each point's next neighbour along an axis; the last one's is the first."""
    # np.roll is several times slower: on coarse grids its overhead dominates.
    if axis == -2:
        return np.concatenate((field[..., 1:, :], field[..., :1, :]), axis=-2)
    return np.concatenate((field[..., 1:], field[..., :1]), axis=-1)


def _before(field: Field, axis: int) -> Field:
    """Each point's previous neighbour along an axis; the first one's is the last."""
    if axis == -2:
        return np.concatenate((field[..., -1:, :], field[..., :-1, :]), axis=-2)
    return np.concatenate((field[..., -1:], field[..., :-1]), axis=-1)
