"""The colour and affine augmentation of CoTTA, ROID and CMF: one draw for a whole batch.

In this order: clip to [0, 1]; brightness, contrast, saturation, hue and gamma in random order; turn, shift and scale;
blur; mirror; noise; clip. The released code pads the image by half its size, warps it, blurs it and cuts the middle
out again, four times the pixels. Here the pixels that stay are sampled alone, with the padding as the rule for what
lies outside: the same numbers. As released, a shift is a whole number of pixels up to 1/16 of the *padded* size.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ._colour import brightness, contrast, gamma, hue, saturation
from ._draws import Draws

Padding = Literal["edge", "reflect"]
OUTSIDE = {"edge": "border", "reflect": "reflection"}  # as grid_sample calls them
COLOURS = (
    (brightness, 0.6, 1.4),
    (contrast, 0.7, 1.3),
    (saturation, 0.5, 1.5),
    (hue, -0.06, 0.06),
    (gamma, 0.7, 1.3),
)
TURN, SHIFT, SCALE = 15.0, 1 / 8, 0.1  # degrees, share of the size, share
BLUR_RADIUS, BLUR_SIGMA = 2, (0.001, 0.5)


class ColourAndAffine:
    """Augments a batch of images in [0, 1], all alike; the next call draws again.

    ROID and CMF take it as it is; CoTTA pads with the edge, blurs, and adds `noise` of a standard deviation of 0.005.
    """

    def __init__(self, draws: Draws, *, padding: Padding = "reflect", blur: bool = False, noise: float = 0.0) -> None:
        self.draws, self.outside, self.blur, self.noise = draws, OUTSIDE[padding], blur, noise

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        views = images.clamp(0, 1)
        for i in self.draws.order(len(COLOURS)):
            change, low, high = COLOURS[i]
            views = change(views, self.draws.uniform(low, high))
        views = self._warp(views)
        if self.noise:
            noise = torch.empty_like(views).normal_(0, self.noise, generator=self.draws.on(views.device))
            views = views.add_(noise)
        return views.clamp_(0, 1)

    def _warp(self, images: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        draws = self.draws
        turn = math.radians(draws.uniform(-TURN, TURN))
        right, down = (round(draws.uniform(-SHIFT * size, SHIFT * size)) for size in (width, height))
        scale = draws.uniform(1 - SCALE, 1 + SCALE)
        sigma = draws.uniform(*BLUR_SIGMA) if self.blur else 0.0
        mirror = draws.uniform(0, 1) < 0.5
        margin = BLUR_RADIUS if self.blur else 0
        # Places of the wanted pixels, counted from the middle of the image, and where in the image they come from.
        x = _places(width, margin, images) * (-1 if mirror else 1) - right
        y = _places(height, margin, images)[:, None] - down
        cos, sin = math.cos(turn) / scale, math.sin(turn) / scale
        grid = torch.stack(
            [(cos * x + sin * y) * (2 / max(width - 1, 1)), (cos * y - sin * x) * (2 / max(height - 1, 1))], dim=-1
        )
        # The whole batch moves alike: as channels of one image, where to look is worked out once.
        as_one = images.reshape(1, -1, height, width)
        moved = F.grid_sample(as_one, grid[None], padding_mode=self.outside, align_corners=True)
        if self.blur:
            moved = _blurred(moved[0], sigma)
        return moved.reshape(images.shape)


def _places(size: int, margin: int, like: Tensor) -> Tensor:
    return torch.arange(-margin, size + margin, dtype=like.dtype, device=like.device) - (size - 1) / 2


def _blurred(planes: Tensor, sigma: float) -> Tensor:
    """Planes smoothed by a Gaussian; the margin of each is used up."""
    taps = torch.arange(-BLUR_RADIUS, BLUR_RADIUS + 1, dtype=planes.dtype)
    weights = (-0.5 * (taps / sigma) ** 2).exp()
    weights /= weights.sum()
    for axis in (-1, -2):
        size = planes.shape[axis] - 2 * BLUR_RADIUS
        parts = [planes.narrow(axis, i, size) for i in range(len(taps))]
        planes = parts[0] * float(weights[0])
        for part, weight in zip(parts[1:], weights[1:].tolist(), strict=True):
            planes.add_(part, alpha=weight)
    return planes
