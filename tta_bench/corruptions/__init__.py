"""The corruptions of ImageNet-C, computed on demand: the published families, order and strengths.

    corrupted = corrupt(image, "fog", 3, image_id="digits/test/17")
    all_of_them = corrupt_many(images, "fog", 3, image_ids=ids)  # bit-identical, and faster

Random numbers come from a generator seeded by (corruption, severity, image id) alone, so an image is corrupted the
same way in every process and batch. Where a family differs from the released scripts, its docstring says so; all
differ from them in rounding to the nearest grey level instead of down (docs/corruptions.md has figures).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tta_bench.corruptions import blur, digital, lens, noise, weather
from tta_bench.corruptions._random import Chance, Generators, generator
from tta_bench.corruptions._resample import Image, to_bytes, to_float
from tta_bench.corruptions.tables import LARGE, SMALL, Row
from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.errors import UserError, did_you_mean

__all__ = ["CORRUPTIONS", "HELD_OUT", "SEVERITIES", "Edition", "Scale", "corrupt", "corrupt_many"]

Scale = Literal["small", "large", "auto"]

Edition = Literal[1, 2]
"""2 is closer to the release. 1 keeps images that published results were made from: frost softer, and elastic_transform
mirrored at the end pixel; all other families are the same in both."""

_Family = Callable[[Image, Row, Chance], Image]

_FAMILIES: dict[str, _Family] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": digital.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": lens.spatter,
    "saturate": digital.saturate,
}

_FIRST_EDITION: dict[str, _Family] = {
    "frost": partial(weather.frost, edition=1),
    "elastic_transform": partial(digital.elastic_transform, border="reflect"),
}

SEVERITIES = range(1, 6)

_ONE_BY_ONE = ("jpeg_compression", "spatter")  # codecs and distances take one image at a time
_AT_ONCE = 64  # images, so that intermediate results stay in the processor's cache

_SMALLEST = 8
_LARGE_FROM = 64


def corrupt(
    image: NDArray[np.uint8], name: str, severity: int, *, image_id: str, scale: Scale = "auto", edition: Edition = 2
) -> NDArray[np.uint8]:
    """A corrupted copy of an [H, W, 3] image; the image itself is unchanged.

    `scale` picks the strengths: "small" CIFAR-10-C's, made for 32 px, "large" ImageNet-C's,
    made for 224 px. "auto" takes the small ones when the shorter side is below 64 px: there, the large blurs
    would leave nothing to recognise. Raises UserError for a name, severity, scale or image it cannot use.
    """
    _check(name, severity, scale)
    _check_image(image)
    row = _row(image, name, severity, scale)
    return to_bytes(family(name, edition)(to_float(image), row, generator(name, int(severity), image_id)))


def corrupt_many(
    images: NDArray[np.uint8],
    name: str,
    severity: int,
    *,
    image_ids: Sequence[str],
    scale: Scale = "auto",
    edition: Edition = 2,
) -> NDArray[np.uint8]:
    """Corrupted copies of [N, H, W, 3] images, each exactly as `corrupt` returns it for its id.

    For small images several times faster in most families: numpy works on many at once.
    """
    _check(name, severity, scale)
    done: NDArray[np.uint8] = images.copy()
    if len(images) != len(image_ids):
        raise UserError(f"images to corrupt: {len(images)} images, but {len(image_ids)} ids")
    if name in _ONE_BY_ONE:
        for place, image_id in enumerate(image_ids):
            done[place] = corrupt(images[place], name, severity, image_id=image_id, scale=scale, edition=edition)
        return done
    for start in range(0, len(images), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        _check_image(images[start])
        row = _row(images[start], name, severity, scale)
        rng = Generators([generator(name, int(severity), image_id) for image_id in image_ids[some]])
        done[some] = to_bytes(family(name, edition)(to_float(images[some]), row, rng))
    return done


def family(name: str, edition: Edition) -> _Family:
    """The function that corrupts one image, or a stack of images."""
    return _FIRST_EDITION.get(name, _FAMILIES[name]) if edition == 1 else _FAMILIES[name]


def _check(name: str, severity: int, scale: Scale) -> None:
    if name not in _FAMILIES:
        raise UserError(f"unknown corruption '{name}'{did_you_mean(name, _FAMILIES)}")
    if severity not in SEVERITIES:
        raise UserError(f"severity of {name}: expected a whole number from 1 to 5, got {severity!r}")
    if scale not in ("small", "large", "auto"):
        raise UserError(f"unknown scale '{scale}'{did_you_mean(str(scale), ('small', 'large', 'auto'))}")


def _row(image: NDArray[np.uint8], name: str, severity: int, scale: Scale) -> Row:
    """The published figures for an image of this size."""
    if scale == "auto":
        scale = "small" if min(image.shape[:2]) < _LARGE_FROM else "large"
    return (SMALL if scale == "small" else LARGE)[name][int(severity) - 1]


def _check_image(image: NDArray[np.uint8]) -> None:
    shape, kind = getattr(image, "shape", None), getattr(image, "dtype", type(image).__name__)
    if kind != np.uint8:
        raise UserError(f"image to corrupt: expected an array of uint8, got {kind}")
    if shape is None or len(shape) != 3 or shape[2] != 3 or min(shape[:2]) < _SMALLEST:
        sides = f"[H, W, 3] with H and W at least {_SMALLEST}"
        raise UserError(f"image to corrupt: expected shape {sides}, got {list(shape or ())}")
