"""Lens: drops of water or mud on the glass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tta_bench.corruptions._random import Chance
from tta_bench.corruptions._resample import Image, gaussian
from tta_bench.corruptions.tables import Row

_WATER = np.array([175, 238, 238], dtype=np.float32) / np.float32(255)
_MUD = np.array([63, 42, 20], dtype=np.float32) / np.float32(255)
# Lit from one corner: brighter towards the lower right, darker towards the upper left; weights sum to 1.
_RELIEF = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], dtype=np.float32)


def spatter(image: Image, row: Row, rng: Chance) -> Image:
    """Noise (mean, deviation) blurred by sigma; where it passes the threshold, water or, if `muddy`, mud.

    `strength` is the opacity of water, or the blur of a clot's rim. Differs from the release in how the outline of
    a drop is found: by the drop's own border pixels instead of OpenCV's Canny filter, and with exact distances from
    it, which OpenCV approximates.
    """
    mean, deviation, sigma, threshold, strength, muddy = row
    noise = np.float32(mean) + np.float32(deviation) * rng.standard_normal(image.shape[:2], dtype=np.float32)
    liquid = gaussian(noise[..., None], sigma)[..., 0]
    liquid[liquid < threshold] = 0
    if muddy:
        clots = gaussian((liquid > threshold).astype(np.float32)[..., None], strength)
        clots[clots < 0.8] = 0
        muddied: Image = image + clots * (_MUD - image)
        return muddied
    sheen = liquid * _sheen(liquid > 0)
    # A small image may have no drop at all.
    peak = max(float(sheen.max()), 1e-6)
    wet: Image = image + np.float32(strength / peak) * sheen[..., None] * _WATER
    return wet


def _sheen(drops: NDArray[np.bool_]) -> Image:
    """The light on the drops: a relief of the distance from their outlines."""
    from scipy.ndimage import binary_erosion, correlate, distance_transform_edt, uniform_filter

    outline = drops & ~binary_erosion(drops, border_value=1)
    if not outline.any():
        return np.zeros(drops.shape, dtype=np.float32)
    distance = np.minimum(distance_transform_edt(~outline), 20)
    depth = _equalised(uniform_filter(distance, 3, mode="mirror").astype(np.uint8))
    relief = np.clip(correlate(depth, _RELIEF, mode="mirror"), 0, 255)
    sheen: Image = uniform_filter(relief, 3, mode="mirror")
    return sheen


def _equalised(levels: NDArray[np.uint8]) -> Image:
    """Histogram equalisation: each of the 256 levels becomes about equally common, the lowest becomes 0."""
    counts = np.bincount(levels.ravel(), minlength=256).cumsum()
    lowest = counts[levels.min()]
    spread = (counts - lowest) / max(levels.size - lowest, 1)
    equal: Image = np.rint(255 * np.maximum(spread, 0)).astype(np.float32)[levels]
    return equal
