"""Weather: snow, frost and fog between the camera and the scene."""

from __future__ import annotations

import numpy as np
from PIL import Image as Pillow

from tta_bench.corruptions import _frost
from tta_bench.corruptions._fractal import plasma
from tta_bench.corruptions._resample import Image, motion_taps, shift_and_add, zoom
from tta_bench.corruptions.tables import Row

_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def snow(image: Image, row: Row, rng: np.random.Generator) -> Image:
    """Falling flakes over a scene that has lost some of its colour.

    Normal noise (mean, deviation) is magnified, cut off below a threshold and blurred along a steep line
    (radius, sigma); the last figure is the share of the scene that is not whitened.
    """
    mean, deviation, magnified, threshold, radius, sigma, kept = row
    noise = np.float32(mean) + np.float32(deviation) * rng.standard_normal(image.shape[:2], dtype=np.float32)
    flakes = np.array(zoom(Pillow.fromarray(noise), magnified))
    flakes[flakes < threshold] = 0
    np.minimum(flakes, 1, out=flakes)
    trails = shift_and_add(flakes, motion_taps(radius, sigma, rng.uniform(-135, -45)), "edge")
    # Every flake has a twin half a turn away: twice the snow for one blur.
    trails = trails + trails[::-1, ::-1]
    pale = np.maximum(image, (image @ _LUMA * np.float32(1.5) + np.float32(0.5))[..., None])
    snowy: Image = np.float32(kept) * image + np.float32(1 - kept) * pale + trails[..., None]
    return snowy


def frost(image: Image, row: Row, rng: np.random.Generator) -> Image:
    """An icy pane over the scene: the two weighted and added, the ice shrunk by the last figure.

    Departs from the release, which crops photographs of frost: we crop drawn sheets of the same mean colours
    and contrast (see `_frost`). The weights are the published ones.
    """
    scene, ice, shrink = row
    sheet = _frost.sheet(int(rng.integers(_frost.COUNT)), int(shrink))
    # Sheets have no edge, so that an image larger than one still finds ice everywhere.
    side = len(sheet)
    rows, columns = ((rng.integers(side) + np.arange(length)) % side for length in image.shape[:2])
    frozen: Image = np.float32(scene) * image + np.float32(ice) * sheet[np.ix_(rows, columns)]
    return frozen


def fog(image: Image, row: Row, rng: np.random.Generator) -> Image:
    """A plasma cloud of the given thickness and smoothness added, all dimmed to the scene's own maximum."""
    thickness, decay = row
    height, width = image.shape[:2]
    side = 1 << (max(height, width) - 1).bit_length()
    cloud = plasma(side, decay, rng)[:height, :width, None].astype(np.float32)
    brightest = float(image.max())
    foggy: Image = (image + np.float32(thickness) * cloud) * np.float32(brightest / (brightest + thickness))
    return foggy
