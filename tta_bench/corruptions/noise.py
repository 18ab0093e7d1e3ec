"""Noise: every pixel and channel is disturbed independently."""

from __future__ import annotations

import numpy as np

from tta_bench.corruptions._random import Chance
from tta_bench.corruptions._resample import Image
from tta_bench.corruptions.tables import Row


def gaussian_noise(image: Image, row: Row, rng: Chance) -> Image:
    """Sensor noise in poor light: normal, with the given standard deviation."""
    (deviation,) = row
    noisy: Image = image + np.float32(deviation) * rng.standard_normal(image.shape[-3:], dtype=np.float32)
    return noisy


def shot_noise(image: Image, row: Row, rng: Chance) -> Image:
    """Photon counting: Poisson, with the given count for a white pixel."""
    (photons,) = row
    return (rng.poisson(image * photons) / photons).astype(np.float32)


def impulse_noise(image: Image, row: Row, rng: Chance) -> Image:
    """Salt and pepper: the given share of the values becomes black or white, equally often."""
    (share,) = row
    draw = rng.random(image.shape[-3:], dtype=np.float32)
    noisy = np.where(draw < share, np.float32(0), image)
    noisy[draw < share / 2] = 1
    return noisy


def speckle_noise(image: Image, row: Row, rng: Chance) -> Image:
    """Normal noise in proportion to each value."""
    (deviation,) = row
    noise = rng.standard_normal(image.shape[-3:], dtype=np.float32)
    noisy: Image = image * (1 + np.float32(deviation) * noise)
    return noisy
