"""Blur: out of focus, through glass, or in motion."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tta_bench.corruptions._random import Chance
from tta_bench.corruptions._resample import Image, Tap, add_by_fourier, gaussian, shift_and_add, to_bytes, trail, zoom
from tta_bench.corruptions.tables import Row

_FEW = 16  # taps, for which adding shifted images is faster than Fourier transforms


def defocus_blur(image: Image, row: Row, rng: Chance) -> Image:
    """A lens out of focus: the mean over a disk of the given radius, its rim softened by the given sigma."""
    taps = _disk(*row)
    return (shift_and_add if len(taps) <= _FEW else add_by_fourier)(image, taps, "reflect")


@lru_cache
def _disk(radius: float, softness: float) -> tuple[Tap, ...]:
    reach = max(8, math.ceil(radius))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    kernel = (y**2 + x**2 <= radius**2).astype(np.float64)
    # As published: three taps soften a small disk and five a large one, whatever the sigma. A disk that fills its
    # grid is mirrored at the grid's edge, which adds a hundredth of light.
    half = 1 if radius <= 8 else 2
    rim = np.exp(-0.5 * (np.arange(-half, half + 1) / softness) ** 2)
    rim /= rim.sum()
    kernel = np.pad(kernel / kernel.sum(), half, mode="reflect")
    for axis in (0, 1):
        kernel = np.apply_along_axis(np.convolve, axis, kernel, rim, mode="valid")
    # Drop weights like exp(-50), which add no visible light.
    seen = kernel > 1e-7
    return tuple(zip(y[seen].tolist(), x[seen].tolist(), kernel[seen].tolist(), strict=True))


def glass_blur(image: Image, row: Row, rng: Chance) -> Image:
    """Frosted glass: blur by sigma, then move pixels by up to `reach`, `passes` times, then blur again.

    The released loop means to swap each pixel with a neighbour, but swaps two numpy views, so that both pixels get
    the neighbour's colour. The published images are made this way, and so are ours.
    """
    sigma, reach, passes = row[0], int(row[1]), int(row[2])
    soft = gaussian(image, sigma)
    height, width, channels = image.shape[-3:]
    pixels = soft.reshape(-1, channels)
    for _ in range(passes):
        pixels = pixels[_copied_from(height, width, reach, rng)]
    return gaussian(pixels.reshape(image.shape), sigma)


def _copied_from(height: int, width: int, reach: int, rng: Chance) -> NDArray[np.int64]:
    """For each pixel of all images, the pixel whose colour it has after one pass, exactly as after the loop.

    The loop runs from the last pixel to the first, so a pixel that copies from a later one takes a colour that was
    itself copied. Following such chains by doubling (each pixel jumps to where its neighbour's chain has reached)
    needs a handful of look-ups, where the loop needs one step per pixel.
    """
    inner = np.s_[..., reach + 1 : height - reach + 1, reach + 1 : width - reach + 1]
    moves = rng.integers(-reach, reach, size=(2, *np.empty((height, width))[inner].shape))
    down, right = moves[..., 0, :, :], moves[..., 1, :, :]
    shape = (*moves.shape[:-3], height, width)
    grid = np.arange(math.prod(shape)).reshape(shape)
    targets, touched = grid.copy(), np.zeros(shape, dtype=bool)
    targets[inner] += down * width + right
    touched[inner] = True
    place, source, moved = grid.ravel(), targets.ravel(), touched.ravel()
    end = np.where(moved & moved[source] & (source > place), source, place)
    while True:
        further = end[end]
        if np.array_equal(further, end):
            origin: NDArray[np.int64] = source[end]
            return origin
        end = further


def motion_blur(image: Image, row: Row, rng: Chance) -> Image:
    """A moving camera: every pixel trails off in one direction within 45° of the horizontal."""
    radius, sigma = row
    return trail(image, radius, sigma, rng.uniform(-45, 45))


def zoom_blur(image: Image, row: Row, rng: Chance) -> Image:
    """A camera rushing forward: the mean of the image and its magnifications from 1 to the given factor.

    The zooms are rounded to 8 bits before they are averaged: less than half a grey level in the mean.
    """
    stop, step = row
    still = to_bytes(image)
    # Rounding in np.arange decides whether `stop` is included, as it did for the published images.
    factors = np.arange(1, stop, step).tolist()
    total = image * np.float32(255)
    for factor in factors:
        total += zoom(still, factor)
    mean: Image = total / np.float32(255 * (len(factors) + 1))
    return mean


def gaussian_blur(image: Image, row: Row, rng: Chance) -> Image:
    """Plain Gaussian blur of the given sigma."""
    (sigma,) = row
    return gaussian(image, sigma)
