"""Digital: effects of image processing, from exposure to compression."""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from tta_bench.corruptions._random import Chance
from tta_bench.corruptions._resample import Border, Image, resize, sample, to_bytes, to_float
from tta_bench.corruptions.tables import Row


def brightness(image: Image, row: Row, rng: Chance) -> Image:
    """Raise the value of HSV by the given amount, at the same hue and saturation."""
    (rise,) = row
    value = image.max(axis=-1, keepdims=True)
    raised = np.minimum(value + np.float32(rise), 1)
    # RGB is proportional to value at fixed hue and saturation, so no detour through HSV is needed.
    lit = np.where(value > 0, value, 1)
    bright: Image = np.where(value > 0, image * (raised / lit), raised)
    return bright


def saturate(image: Image, row: Row, rng: Chance) -> Image:
    """Multiply the saturation of HSV by a factor and add an offset.

    As published, a grey pixel has hue 0, so an offset turns it reddish.
    """
    factor, offset = row
    value = image.max(axis=-1, keepdims=True)
    spread = value - image.min(axis=-1, keepdims=True)
    saturation = spread / np.where(value > 0, value, 1)
    wanted = np.clip(saturation * np.float32(factor) + np.float32(offset), 0, 1)
    # The distance of each channel from the largest grows in proportion to saturation.
    coloured = value - (value - image) * (wanted / np.where(spread > 0, saturation, 1))
    red = value * (1 - wanted * np.array([0, 1, 1], dtype=np.float32))
    vivid: Image = np.where(spread > 0, coloured, red)
    return vivid


def contrast(image: Image, row: Row, rng: Chance) -> Image:
    """Pull each channel towards its own mean, keeping the given share of its contrast."""
    (share,) = row
    mean = image.mean(axis=(-3, -2), keepdims=True, dtype=np.float64).astype(np.float32)
    flat: Image = (image - mean) * np.float32(share) + mean
    return flat


def elastic_transform(image: Image, row: Row, rng: Chance, border: Border = "symmetric") -> Image:
    """A random affine map, then a smooth random displacement.

    As published, the affine map mirrors at the end pixel and the displacement half a pixel further; `border` is the
    latter's.

    The row holds the displacement's strength, its smoothness and the affine jitter, each as a share of the
    shorter side: the published lengths at the published sizes, and the same appearance at other sizes.
    """
    height, width = image.shape[-3:-1]
    strength, smoothness, jitter = (min(height, width) * share for share in row)
    rows, columns = np.mgrid[:height, :width].astype(np.float64)
    tilted = sample(image, *_affine(rows, columns, jitter, rng), "reflect")
    if strength == 0:
        return tilted
    noise = rng.uniform(-1, 1, size=(2, height, width))
    shift = strength * (_smoother(height, smoothness) @ noise @ _smoother(width, smoothness).T)
    return sample(tilted, rows + shift[..., 0, :, :], columns + shift[..., 1, :, :], border)


def _affine(
    rows: NDArray[np.float64], columns: NDArray[np.float64], jitter: float, rng: Chance
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where each pixel comes from, if three corners of a central square move by up to `jitter`."""
    height, width = rows.shape
    half = min(height, width) // 3
    corners = np.array([height // 2, width // 2]) + half * np.array([[1, 1], [-1, 1], [-1, -1]])
    moved = corners + rng.uniform(-jitter, jitter, size=(3, 2))
    ones = np.ones((*moved.shape[:-1], 1))
    back = np.linalg.solve(np.concatenate((moved, ones), axis=-1), corners)[..., None, None]
    source_rows, source_columns = (
        rows * back[..., 0, axis, :, :] + columns * back[..., 1, axis, :, :] + back[..., 2, axis, :, :]
        for axis in (0, 1)
    )
    return source_rows, source_columns


@lru_cache(maxsize=32)
def _smoother(length: int, sigma: float) -> NDArray[np.float64]:
    """Gaussian smoothing along an axis, as a matrix: the widest published kernel is larger than the image."""
    from scipy.ndimage import gaussian_filter1d

    matrix: NDArray[np.float64] = gaussian_filter1d(np.eye(length), sigma, axis=0, mode="reflect", truncate=3)
    matrix.flags.writeable = False
    return matrix


def pixelate(image: Image, row: Row, rng: Chance) -> Image:
    """Shrink to the given share and enlarge again, by box averages."""
    (share,) = row
    height, width = image.shape[-3:-1]
    coarse = resize(to_bytes(image), (int(height * share), int(width * share)), Pillow.Resampling.BOX)
    return to_float(resize(coarse, (height, width), Pillow.Resampling.BOX))


def jpeg_compression(image: Image, row: Row, rng: Chance) -> Image:
    """JPEG compression at the given quality, with Pillow's other defaults."""
    (quality,) = row
    file = BytesIO()
    Pillow.fromarray(to_bytes(image)).save(file, "JPEG", quality=int(quality))
    with Pillow.open(file) as decoded:
        return to_float(np.asarray(decoded))
