"""The ways in which corruptions move pixels: shift and add, blur, zoom, sample between pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

Image = NDArray[np.float32]
"""[H, W, 3], or [N, H, W, 3] for a stack of images, nominally in [0, 1]; clipped once, at the very end."""

Pixel = TypeVar("Pixel", np.uint8, np.float32)

Tap = tuple[int, int, float]
"""Rows down, columns right, weight."""

Border = Literal["edge", "reflect", "symmetric"]
"""How an image goes on past its border, as in `np.pad`: reflect mirrors at the end pixel, symmetric half a pixel
further."""


def to_bytes(image: Image) -> NDArray[np.uint8]:
    """The nearest 8-bit image; exact for an image that came from 8 bits."""
    levels: NDArray[np.uint8] = np.clip(np.rint(image * np.float32(255)), 0, 255).astype(np.uint8)
    return levels


def to_float(image: NDArray[np.uint8]) -> Image:
    """The same image in [0, 1]."""
    share: Image = image.astype(np.float32) / np.float32(255)
    return share


def shift_and_add(image: Image, taps: Sequence[Tap], border: Border) -> Image:
    """`out[y, x] = Σ weight · image[y + down, x + right]`, with the image extended past its border.

    One pass over the image per tap: for kernels with many zeros (lines, disks) it beats a convolution.
    """
    padded, top, left = _continued(image, [tap[0] for tap in taps], [tap[1] for tap in taps], border)
    height, width = image.shape[-3:-1]
    total, term = np.zeros_like(image), np.empty_like(image)
    for dy, dx, weight in taps:
        window = padded[..., top + dy : top + dy + height, left + dx : left + dx + width, :]
        np.multiply(window, np.float32(weight), out=term)
        total += term
    return total


def add_by_fourier(image: Image, taps: tuple[Tap, ...], border: Border) -> Image:
    """`shift_and_add` by a Fourier transform, which takes the same time for any number of taps.

    Both are sums in 32 bits: of the image in 8 bits, one value in some ten thousand differs, by one grey level.
    """
    from scipy.fft import irfftn, rfftn  # slow to import

    if image.ndim > 3:  # one by one: many at once may be rounded in another way
        return np.stack([add_by_fourier(one, taps, border) for one in image])
    reach = max(max(abs(dy), abs(dx)) for dy, dx, _ in taps)
    spectrum, sides = _spectrum(taps, reach, image.shape[:2])
    height, width = image.shape[:2]
    pads = [(reach, side - reach - length) for side, length in zip(sides, (height, width), strict=True)]
    waves = rfftn(np.pad(image, (*pads, (0, 0)), mode=border), axes=(0, 1))
    waves *= spectrum
    whole: NDArray[Any] = irfftn(waves, s=sides, axes=(0, 1), overwrite_x=True)
    blurred: Image = whole[reach : reach + height, reach : reach + width]
    return blurred


@lru_cache(maxsize=32)
def _spectrum(taps: tuple[Tap, ...], reach: int, shape: tuple[int, int]) -> tuple[NDArray[np.complex64], list[int]]:
    """The taps' Fourier transform for images of this shape, and the sides of the padded image."""
    from scipy.fft import next_fast_len, rfft2

    sides = [next_fast_len(length + 2 * reach, real=True) for length in shape]
    kernel = np.zeros(sides)
    for dy, dx, weight in taps:
        kernel[-dy, -dx] = weight
    return rfft2(kernel).astype(np.complex64)[..., None], sides


def _continued(image: Image, down: Iterable[int], right: Iterable[int], border: Border) -> tuple[Image, int, int]:
    """The image padded as far as these shifts need, and the padding above and to the left."""
    down, right = [0, *down], [0, *right]
    top, left = -min(down), -min(right)
    pads = ((top, max(down)), (left, max(right)), (0, 0))
    return np.pad(image, ((0, 0),) * (image.ndim - 3) + pads, mode=border), top, left


def trail(image: Image, radius: float, sigma: float, degrees: float | NDArray[np.float64]) -> Image:
    """Motion blur in one direction, or in one per image of a stack."""
    if isinstance(degrees, float):
        return shift_and_add(image, motion_taps(radius, sigma, degrees), "edge")
    taps = np.array([motion_taps(radius, sigma, angle) for angle in degrees.tolist()])
    down, right = taps[..., 0].astype(np.int64), taps[..., 1].astype(np.int64)
    padded, top, left = _continued(image, down.ravel().tolist(), right.ravel().tolist(), "edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, image.shape[-3:], axis=(-3, -2, -1))[:, :, :, 0]
    total, each = np.zeros_like(image), np.arange(len(image))
    for place, weight in enumerate(taps[0, :, 2].astype(np.float32)):  # the same for all directions
        total += windows[each, top + down[:, place], left + right[:, place]] * weight
    return total


def gaussian(image: Image, sigma: float) -> Image:
    """Gaussian blur of rows and columns (never of channels), with border pixels repeated outwards."""
    from scipy.ndimage import gaussian_filter  # takes a third of a second to import

    sigmas = (0.0,) * (image.ndim - 3) + (sigma, sigma, 0.0)
    blurred: Image = gaussian_filter(image, sigmas, mode="nearest")
    return blurred


def motion_taps(radius: float, sigma: float, degrees: float) -> list[Tap]:
    """A trail of 2·radius + 1 pixels in one direction, fading like half a Gaussian.

    This is ImageMagick's motion blur, which made the published images: one-sided, unlike most.
    """
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-0.5 * (steps / sigma) ** 2)
    weights /= weights.sum()
    angle = math.radians(degrees)
    down = np.ceil(steps * math.sin(angle) - 0.5).astype(int)
    right = np.ceil(steps * math.cos(angle) - 0.5).astype(int)
    # A weight of 1e-4 is far below one grey level, but its tap would cost as much as any other.
    seen = weights > 1e-4
    return list(zip(down[seen].tolist(), right[seen].tolist(), weights[seen].tolist(), strict=True))


def zoom(image: NDArray[Pixel], factor: float) -> NDArray[Pixel]:
    """The centre of an image magnified to the full size, linearly interpolated; sides may differ in length."""
    height, width = image.shape[-3:-1]
    (left, right), (top, bottom) = (_zoom_span(side, factor) for side in (width, height))
    return resize(image, (height, width), Pillow.Resampling.BILINEAR, box=(left, top, right, bottom))


def resize(
    image: NDArray[Pixel],
    size: tuple[int, int],
    how: Pillow.Resampling,
    box: tuple[float, float, float, float] | None = None,
) -> NDArray[Pixel]:
    """Pillow's resize to (height, width) of an image or a stack of them; with `box`, of that part.

    Pillow resizes rows first and columns next, rounding in between. So a whole stack can be resized at once: images
    below each other for the rows, beside each other for the columns.
    """
    height, width, channels = image.shape[-3:]
    box = box or (0, 0, width, height)
    if image.ndim == 3:
        return _shaped(_picture(image).resize(size[::-1], how, box=box), channels)
    count = len(image)
    column = _picture(image.reshape(count * height, width, channels))
    rows = _shaped(column.resize((size[1], column.height), how, box=(box[0], 0, box[2], column.height)), channels)
    beside = rows.reshape(count, height, size[1], channels).transpose(1, 0, 2, 3)
    row = _picture(beside.reshape(height, count * size[1], channels))
    done = _shaped(row.resize((row.width, size[0]), how, box=(0, box[1], row.width, box[3])), channels)
    stack: NDArray[Pixel] = done.reshape(size[0], count, size[1], channels).transpose(1, 0, 2, 3)
    return stack


def _picture(image: NDArray[Pixel]) -> Pillow.Image:
    return Pillow.fromarray(image[..., 0] if image.shape[-1] == 1 else image)


def _shaped(picture: Pillow.Image, channels: int) -> NDArray[Any]:
    return np.array(picture).reshape(picture.height, picture.width, channels)


def _zoom_span(length: int, factor: float) -> tuple[float, float]:
    """The interval of an axis that fills the axis after magnification.

    As published: crop the centre, stretch it so that its end pixels stay end pixels, trim to length. The three steps
    together are one linear map, which takes this interval to [0, length].
    """
    cut = math.ceil(length / factor)
    stretched = round(cut * factor)
    scale = (cut - 1) / (stretched - 1)
    start = (length - cut) // 2 + (stretched - length) // 2 * scale + 0.5 * (1 - scale)
    return start, min(start + length * scale, float(length))


def sample(image: Image, rows: NDArray[np.float64], columns: NDArray[np.float64], border: Border) -> Image:
    """The image sampled at fractional positions, linearly interpolated and mirrored at its border."""
    channels = image.shape[-1]
    upper, left = np.floor(rows), np.floor(columns)
    above, beside = ([int(at.min()), int(at.max()) + 1] for at in (upper, left))
    height, width = image.shape[-3:-1]
    padded, top, west = _continued(image, (above[0], above[1] - height + 1), (beside[0], beside[1] - width + 1), border)
    row = padded.shape[-2]
    first = np.arange(0, padded.size // channels, padded.shape[-3] * row).reshape(*image.shape[:-3], 1, 1)
    place = first + ((upper + top) * row + (left + west)).astype(np.int64)
    flat = padded.reshape(-1, channels)
    # Weights as large as the image: numpy is slow where it has to repeat along a last axis of 3.
    down, right = (
        np.repeat((at - start).astype(np.float32)[..., None], channels, axis=-1)
        for at, start in ((rows, upper), (columns, left))
    )
    corners = (np.take(flat[step:], place, axis=0) for step in (0, 1, row, row + 1))
    between: Image = _mix(_mix(next(corners), next(corners), right), _mix(next(corners), next(corners), right), down)
    return between


def _mix(first: Image, second: Image, share: Image) -> Image:
    """`first * (1 - share) + second * share`, in place."""
    first *= 1 - share
    second *= share
    first += second
    return first
