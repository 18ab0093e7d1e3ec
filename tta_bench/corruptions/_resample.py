"""The few ways the families move pixels about: shift and add, blur, zoom, sample between pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

Image = NDArray[np.float32]
"""[H, W, 3] or [H, W], nominally in [0, 1]; values outside are clipped once, at the very end."""

Tap = tuple[int, int, float]
"""Rows down, columns right, weight."""


def to_bytes(image: Image) -> NDArray[np.uint8]:
    """The nearest 8-bit image; exact for an image that came from 8 bits."""
    levels: NDArray[np.uint8] = np.clip(np.rint(image * np.float32(255)), 0, 255).astype(np.uint8)
    return levels


def to_float(image: NDArray[np.uint8]) -> Image:
    """The same image in [0, 1]."""
    share: Image = image.astype(np.float32) / np.float32(255)
    return share


def shift_and_add(image: Image, taps: Sequence[Tap], border: Literal["edge", "reflect"]) -> Image:
    """`out[y, x] = Σ weight · image[y + down, x + right]`, the image being continued past its border.

    One pass over the image per tap: for kernels with many zeros (lines, disks) it beats a convolution.
    """
    down, right = [tap[0] for tap in taps], [tap[1] for tap in taps]
    top, left = max(0, -min(down)), max(0, -min(right))
    pads = ((top, max(0, *down)), (left, max(0, *right)), (0, 0))[: image.ndim]
    padded = np.pad(image, pads, mode=border)
    height, width = image.shape[:2]
    total, term = np.zeros_like(image), np.empty_like(image)
    for dy, dx, weight in taps:
        window = padded[top + dy : top + dy + height, left + dx : left + dx + width]
        np.multiply(window, np.float32(weight), out=term)
        total += term
    return total


def gaussian(image: Image, sigma: float) -> Image:
    """Gaussian blur of rows and columns (never of channels), the border pixels repeated outwards."""
    from scipy.ndimage import gaussian_filter  # a third of a second to import: only who blurs should wait

    sigmas = (sigma, sigma, 0.0)[: image.ndim]
    blurred: Image = gaussian_filter(image, sigmas, mode="nearest")
    return blurred


def motion_taps(radius: float, sigma: float, degrees: float) -> list[Tap]:
    """A trail of 2·radius + 1 pixels in one direction, fading as half a Gaussian.

    This is ImageMagick's motion blur, which the published images went through: one-sided, unlike most.
    """
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-0.5 * (steps / sigma) ** 2)
    weights /= weights.sum()
    angle = math.radians(degrees)
    down = np.ceil(steps * math.sin(angle) - 0.5).astype(int)
    right = np.ceil(steps * math.cos(angle) - 0.5).astype(int)
    # A ten-thousandth of a pixel is far below one grey level, but its tap would cost as much as any other.
    seen = weights > 1e-4
    return list(zip(down[seen].tolist(), right[seen].tolist(), weights[seen].tolist(), strict=True))


def zoom(image: Pillow.Image, factor: float) -> Pillow.Image:
    """The middle of an image magnified to the full size, linearly interpolated; both sides may differ."""
    (left, right), (top, bottom) = (_zoom_span(side, factor) for side in image.size)
    return image.resize(image.size, Pillow.Resampling.BILINEAR, box=(left, top, right, bottom))


def _zoom_span(length: int, factor: float) -> tuple[float, float]:
    """The stretch of an axis that fills it after magnification.

    As published: cut the middle out, stretch it so that its end pixels stay end pixels, trim to length. The
    three steps together are one linear map, and this is the interval it takes to [0, length].
    """
    cut = math.ceil(length / factor)
    stretched = round(cut * factor)
    scale = (cut - 1) / (stretched - 1)
    start = (length - cut) // 2 + (stretched - length) // 2 * scale + 0.5 * (1 - scale)
    return start, min(start + length * scale, float(length))


def sample(image: Image, rows: NDArray[np.float64], columns: NDArray[np.float64]) -> Image:
    """The image read at fractional places, linearly interpolated and mirrored at its border."""
    height, width = image.shape[:2]
    upper, left = np.floor(rows), np.floor(columns)
    down = (rows - upper).astype(np.float32)[..., None]
    right = (columns - left).astype(np.float32)[..., None]
    top, bottom = (_mirror(upper + step, height) * width for step in (0, 1))
    west, east = (_mirror(left + step, width) for step in (0, 1))
    flat = image.reshape(height * width, -1)
    above = flat[top + west] * (1 - right) + flat[top + east] * right
    below = flat[bottom + west] * (1 - right) + flat[bottom + east] * right
    between: Image = above * (1 - down) + below * down
    return between


def _mirror(index: NDArray[np.float64], length: int) -> NDArray[np.int64]:
    """Any whole number brought into [0, length) by reflection in the end pixels."""
    period = 2 * (length - 1)
    folded = np.abs(index.astype(np.int64)) % period
    inside: NDArray[np.int64] = np.minimum(folded, period - folded)
    return inside
