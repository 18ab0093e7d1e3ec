"""Corruptions at any severity from 0 to 5: between two published levels, their images are mixed.

Both levels get the same random numbers. So Gaussian noise at 2.5 has the mean of the strengths of 2 and 3, and every
family changes smoothly, also those whose strengths include whole numbers or switches. Level 0 is the image itself, and
at a whole severity the result equals `corrupt_many`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tta_bench.corruptions import (
    _AT_ONCE,
    _ONE_BY_ONE,
    SEVERITIES,
    Edition,
    _check,
    _check_image,
    _row,
    family,
)
from tta_bench.corruptions._random import Generators, generator
from tta_bench.corruptions._resample import Image, to_bytes, to_float
from tta_bench.errors import UserError

Bytes = NDArray[np.uint8]


def corrupt_between(
    images: Bytes, name: str, severity: float, *, image_ids: Sequence[str], edition: Edition = 2
) -> Bytes:
    """Corrupted copies of [N, H, W, 3] images, with the strengths for their size."""
    if not 0 <= severity <= SEVERITIES[-1]:
        raise UserError(f"severity of {name}: expected a number from 0 to {SEVERITIES[-1]}, got {severity!r}")
    _check(name, SEVERITIES[-1], "auto")
    if len(images) != len(image_ids):
        raise UserError(f"images to corrupt: {len(images)} images, but {len(image_ids)} ids")
    done: Bytes = images.copy()
    size = 1 if name in _ONE_BY_ONE else _AT_ONCE
    for start in range(0, len(images) if severity else 0, size):
        _check_image(images[start])
        some = slice(start, start + size)
        done[some] = to_bytes(_mixed(images[some], name, severity, image_ids[some], edition))
    return done


def _mixed(images: Bytes, name: str, severity: float, image_ids: Sequence[str], edition: Edition) -> Image:
    below, share = math.floor(severity), np.float32(severity - math.floor(severity))
    lower = _at(images, name, below, below, image_ids, edition)
    if not share:
        return lower
    mixed: Image = (1 - share) * lower + share * _at(images, name, below + 1, below, image_ids, edition)
    return mixed


def _at(images: Bytes, name: str, level: int, drawn: int, image_ids: Sequence[str], edition: Edition) -> Image:
    """A published level, with the random numbers of the level `drawn`."""
    if not level:
        return to_float(images)
    each = [generator(name, max(1, drawn), image_id) for image_id in image_ids]
    row = _row(images[0], name, level, "auto")
    if name in _ONE_BY_ONE:
        return family(name, edition)(to_float(images[0]), row, each[0])[None]
    return family(name, edition)(to_float(images), row, Generators(each))
