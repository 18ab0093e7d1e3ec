"""From a decoded image to the bytes that a model takes: resize, then centre crop."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from tta_bench.checked.annotations import Interpolation
from tta_bench.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

INTERPOLATIONS = get_args(Interpolation)


@dataclass(frozen=True)
class Transform:
    """Resize and centre crop with torchvision's rounding, which matches released preprocessing to the byte."""

    resize: int  # length of the shorter side; with `squash`, of both sides
    crop: int
    squash: bool = False
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        if not 1 <= self.crop <= self.resize:
            raise UserError(f"cannot crop {self.crop} pixels from images resized to {self.resize}")
        if self.interpolation not in INTERPOLATIONS:
            raise UserError(f"interpolation: expected one of {', '.join(INTERPOLATIONS)}, got '{self.interpolation}'")

    def __call__(self, image: Image.Image) -> NDArray[np.uint8]:
        """The image as [3, crop, crop]."""
        from PIL.Image import Resampling

        image = to_rgb(image)
        size = (self.resize, self.resize) if self.squash else self._keep_shape(*image.size)
        if size != image.size:
            image = image.resize(size, Resampling[self.interpolation.upper()])
        left, top = (round((side - self.crop) / 2) for side in image.size)
        if image.size != (self.crop, self.crop):
            image = image.crop((left, top, left + self.crop, top + self.crop))
        # Copying plane by plane from Pillow takes half the time of transposing an array.
        planes = b"".join([image.tobytes("raw", band) for band in "RGB"])
        return np.frombuffer(planes, np.uint8).reshape(3, self.crop, self.crop)

    def _keep_shape(self, width: int, height: int) -> tuple[int, int]:
        short, long = sorted((width, height))
        longer = self.resize * long // short
        return (self.resize, longer) if width <= height else (longer, self.resize)

    def describe(self) -> dict[str, Any]:
        """The settings as plain values: they change results, so they are part of a cell's key."""
        return asdict(self)


def photograph(size: int, interpolation: str = "bilinear") -> Transform:
    """The usual preprocessing of a photograph: shorter side to 256/224 of the input size, then centre crop."""
    return Transform(round(size * 256 / 224), size, interpolation=interpolation)


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert grey, palette, CMYK and transparent images to RGB."""
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # Pillow warns about converting directly
    return image if image.mode == "RGB" else image.convert("RGB")
