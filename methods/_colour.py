"""Changes of colour: images [B, 3, H, W] in [0, 1], and a factor for all of them or one for each.

The formulas are torchvision's, for float images; hue is written so that it costs a third. A factor is a number or a
tensor [B, 1, 1, 1].
"""

from __future__ import annotations

import torch
from torch import Tensor

GREY = (0.2989, 0.587, 0.114)
Factor = float | Tensor


def grey(images: Tensor) -> Tensor:
    """Luma [B, 1, H, W]."""
    red, green, blue = images.split(1, dim=1)
    luma: Tensor = GREY[0] * red
    return luma.add_(green, alpha=GREY[1]).add_(blue, alpha=GREY[2])


def brightness(images: Tensor, factor: Factor) -> Tensor:
    return (images * factor).clamp_(0, 1)


def contrast(images: Tensor, factor: Factor) -> Tensor:
    """Away from the mean luma of each image, or towards it."""
    return _blend(images, grey(images).mean((1, 2, 3), keepdim=True), factor)


def saturation(images: Tensor, factor: Factor) -> Tensor:
    """Away from grey, or towards it."""
    return _blend(images, grey(images), factor)


def gamma(images: Tensor, exponent: Factor) -> Tensor:
    return images.clamp(1e-8, 1).pow_(exponent)


def hue(images: Tensor, turn: Factor) -> Tensor:
    """Colours moved round the colour wheel of HSV by a share of the whole circle.

    The wheel has six sections; in each one channel is highest, one lowest, and one in between rises or falls. A
    channel is value - chroma * t, with t a trapezium of the distance from the section in which it is lowest.
    """
    red, green, blue = images.unbind(1)
    high, low = images.amax(1), images.amin(1)
    chroma = high - low
    per = chroma.clamp_min(1e-12).reciprocal_()  # grey pixels have no hue; any will do
    section = torch.where(
        high == red,
        (green - blue) * per,
        torch.where(high == green, (blue - red) * per + 2, (red - green) * per + 4),
    )
    section += 6 * (turn.squeeze(-1) if isinstance(turn, Tensor) else turn)
    moved = torch.empty_like(images)
    for channel, start in enumerate((5.0, 3.0, 1.0)):
        place = (section + start).remainder_(6)
        share = torch.minimum(place, 4 - place).clamp_(0, 1)
        torch.addcmul(high, chroma, share, value=-1, out=moved[:, channel])
    return moved


def _blend(images: Tensor, other: Tensor, factor: Factor) -> Tensor:
    return torch.lerp(other.expand_as(images), images, factor).clamp_(0, 1)
