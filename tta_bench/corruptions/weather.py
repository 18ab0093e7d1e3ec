"""Weather: snow, frost and fog between the camera and the scene."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tta_bench.corruptions import _frost
from tta_bench.corruptions._fractal import plasma
from tta_bench.corruptions._random import Chance
from tta_bench.corruptions._resample import Image, trail, zoom
from tta_bench.corruptions.tables import Row

_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def snow(image: Image, row: Row, rng: Chance) -> Image:
    """Falling flakes over a scene that has lost some of its colour.

    Normal noise (mean, deviation) is magnified, cut off below a threshold and blurred along a steep line
    (radius, sigma); the last figure is the share of the scene that is not whitened.
    """
    mean, deviation, magnified, threshold, radius, sigma, kept = row
    noise = np.float32(mean) + np.float32(deviation) * rng.standard_normal(image.shape[-3:-1], dtype=np.float32)
    flakes = zoom(noise[..., None], magnified)
    flakes[flakes < threshold] = 0
    np.minimum(flakes, 1, out=flakes)
    trails = trail(flakes, radius, sigma, rng.uniform(-135, -45))
    # Every flake has a twin, rotated by 180°: twice the snow for one blur.
    trails = trails + trails[..., ::-1, ::-1, :]
    pale = np.maximum(image, (image @ _LUMA * np.float32(1.5) + np.float32(0.5))[..., None])
    snowy: Image = np.float32(kept) * image + np.float32(1 - kept) * pale + trails
    return snowy


def frost(image: Image, row: Row, rng: Chance, edition: Literal[1, 2] = 2) -> Image:
    """A weighted sum of the scene and an icy pane, which is shrunk by the last figure.

    Differs from the release, which crops photographs of frost: we crop drawn sheets of the same mean colours, contrast
    and detail (see `_frost`). The weights are the published ones.
    """
    scene, ice, shrink = row
    which, side = rng.integers(_frost.COUNT), _frost.SIDE // int(shrink)
    # Sheets wrap around, so that an image larger than a sheet has ice everywhere.
    rows, columns = (
        (np.asarray(rng.integers(side))[..., None] + np.arange(length)) % side for length in image.shape[-3:-1]
    )
    pane = np.empty_like(image)
    for index in np.unique(which).tolist():
        here = which == index
        pane[here] = _frost.sheet(index, int(shrink), edition)[rows[here][..., :, None], columns[here][..., None, :]]
    frozen: Image = np.float32(scene) * image + np.float32(ice) * pane
    return frozen


def fog(image: Image, row: Row, rng: Chance) -> Image:
    """Add a plasma cloud of the given thickness and smoothness, and dim the result to the scene's own maximum."""
    thickness, decay = row
    height, width = image.shape[-3:-1]
    side = 1 << (max(height, width) - 1).bit_length()
    cloud = plasma(side, decay, rng)[..., :height, :width, None].astype(np.float32)
    brightest = image.max(axis=(-3, -2, -1), keepdims=True).astype(np.float64)
    dimmed = (brightest / (brightest + thickness)).astype(np.float32)
    foggy: Image = (image + np.float32(thickness) * cloud) * dimmed
    return foggy
