"""From a decoded picture to the bytes a model takes: resize, then the middle."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tta_bench.annotations import Interpolation
from tta_bench.errors import UserError

INTERPOLATIONS = get_args(Interpolation)


@dataclass(frozen=True)
class Transform:
    """Resize and centre crop with torchvision's rounding, so that released preprocessing can be met to the byte."""

    resize: int  # the shorter side becomes this long; with `squash` both do, whatever the shape was
    crop: int
    squash: bool = False
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        if not 1 <= self.crop <= self.resize:
            raise UserError(f"images are resized to {self.resize} pixels, too few to cut {self.crop} from")
        if self.interpolation not in INTERPOLATIONS:
            raise UserError(f"interpolation: expected one of {', '.join(INTERPOLATIONS)}, got '{self.interpolation}'")

    def __call__(self, image: Image.Image) -> NDArray[np.uint8]:
        """The picture as [3, crop, crop]."""
        image = to_rgb(image)
        size = (self.resize, self.resize) if self.squash else self._keep_shape(*image.size)
        if size != image.size:
            image = image.resize(size, Image.Resampling[self.interpolation.upper()])
        left, top = (round((side - self.crop) / 2) for side in image.size)
        if image.size != (self.crop, self.crop):
            image = image.crop((left, top, left + self.crop, top + self.crop))
        # Plane by plane from Pillow's own memory takes half the time of turning an array of pixels about.
        planes = b"".join([image.tobytes("raw", band) for band in "RGB"])
        return np.frombuffer(planes, np.uint8).reshape(3, self.crop, self.crop)

    def _keep_shape(self, width: int, height: int) -> tuple[int, int]:
        short, long = sorted((width, height))
        longer = self.resize * long // short
        return (self.resize, longer) if width <= height else (longer, self.resize)

    def describe(self) -> dict[str, Any]:
        """The settings as plain values: they change results, so they belong into a cell's key."""
        return asdict(self)


def photograph(size: int, interpolation: str = "bilinear") -> Transform:
    """The usual view of a photograph of any size: shorter side to 256/224 of the input size, then the middle."""
    return Transform(round(size * 256 / 224), size, interpolation=interpolation)


def to_rgb(image: Image.Image) -> Image.Image:
    """Grey, palette, CMYK and transparent pictures as RGB."""
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # Pillow warns about the direct way
    return image if image.mode == "RGB" else image.convert("RGB")
