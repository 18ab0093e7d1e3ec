"""MEMO's views: random crops, mixed with a few weakly altered copies of themselves (AugMix), on the device.

Per view: a random crop of 8 to 100 % of the image, resized, perhaps mirrored. Three copies of it each go through
one to three random operations, at most a tenth as strong as AugMix has them: turns below 3 degrees, shears below
0.03, shifts below 1/30 of the size, solarising above 230, 4 bits of colour. The copies are averaged with random
weights, and the average with the crop. As released, images are rounded to 256 levels after each operation, and what
an operation leaves empty is the dark red that Pillow makes of the `fillcolor` 128.

All views and their copies are one batch; at each of the three places of a chain, the copies that share a kind of
operation pass through it together.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.transforms.v2 import functional as V

from ._crops import random_resized_crops
from ._draws import Draws
from ._head import full_precision
from ._host import places, sent

CHAINS, LONGEST = 3, 3
AUTOCONTRAST, EQUALIZE, SOLARIZE, POSTERIZE, ROTATE, SHEAR_X, SHEAR_Y, SHIFT_X, SHIFT_Y = OPERATIONS = range(9)
AFFINE = (ROTATE, SHEAR_X, SHEAR_Y, SHIFT_X, SHIFT_Y)  # kinds of moves
FILL = (128.0, 0.0, 0.0)
PIECE = 32  # views at a time: more no longer fit into the caches of a CPU


class AugMix:
    """Draws views of images in [0, 1]."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws

    @torch.no_grad()
    def __call__(self, images: Tensor, count: int) -> Tensor:
        """Views [count, B, 3, H, W] of images [B, 3, H, W]; each drawn by itself."""
        many = images.expand(count, *images.shape).flatten(0, 1)
        return torch.cat([self._views(part) for part in many.split(PIECE)]).view(count, *images.shape)

    def _views(self, images: Tensor) -> Tensor:
        """One view of each image."""
        crops = random_resized_crops(images, self.draws, smallest=0.08).mul_(255).round_().clamp_(0, 255)
        mixed = self._mixed_chains(crops)
        share = sent(self.draws.uniforms(0, 1, len(images), 1, 1, 1).to(images.dtype), images)
        return mixed.lerp_(crops, share).div_(255)

    def _mixed_chains(self, crops: Tensor) -> Tensor:
        """The average of the altered copies of each crop, with weights from a flat Dirichlet distribution."""
        number, draws = len(crops), self.draws
        copies = crops.to(torch.uint8).repeat(CHAINS, 1, 1, 1)
        operations = draws.whole(len(OPERATIONS), LONGEST, len(copies))
        lengths = 1 + draws.whole(LONGEST, len(copies))
        operations[torch.arange(LONGEST)[:, None] >= lengths] = -1
        for kinds in operations:
            self._apply(copies, kinds)
        weights = -draws.uniforms(0, 1, CHAINS, number).clamp_min(1e-30).log()
        weights = sent((weights / weights.sum(0)).to(crops.dtype), crops)
        mixed = torch.zeros_like(crops)
        for chain, weight in zip(copies.split(number), weights, strict=True):
            mixed.addcmul_(chain.to(crops.dtype), weight.view(-1, 1, 1, 1))
        return mixed

    def _apply(self, copies: Tensor, kinds: Tensor) -> None:
        """One operation on each copy that has one, in place."""
        levels = self.draws.uniforms(0.1, 1, len(kinds))
        signs = self.draws.whole(2, len(kinds)) * 2.0 - 1
        limits = sent(256 - (levels * 25.6).int(), copies).view(-1, 1, 1, 1)
        matrices = affine_matrices(kinds, levels, signs, *copies.shape[-2:])
        moves = (matrices != torch.eye(2, 3)).flatten(1).any(1)  # the weakest turns and shifts are none
        *plain, moved = places([*(kinds == kind for kind in PLAIN), moves], copies)
        for change, chosen in zip(PLAIN.values(), plain, strict=True):
            if len(chosen):
                copies[chosen] = change(copies[chosen], limits[chosen])
        if len(moved):
            copies[moved] = affine(copies[moved], matrices[moves])


def solarized(images: Tensor, limits: Tensor) -> Tensor:
    return torch.where(images < limits, images, 255 - images)


PLAIN: dict[int, Callable[[Tensor, Tensor], Tensor]] = {  # kinds that move nothing
    AUTOCONTRAST: lambda images, limits: V.autocontrast_image(images),
    EQUALIZE: lambda images, limits: V.equalize_image(images),
    SOLARIZE: solarized,
    POSTERIZE: lambda images, limits: images & 0b11110000,
}


def affine_matrices(kinds: Tensor, levels: Tensor, signs: Tensor, height: int, width: int) -> Tensor:
    """Where pixels come from, [n, 2, 3], as Pillow counts: middles of pixels, from the corner of the image."""
    matrices = torch.eye(2, 3).repeat(len(kinds), 1, 1)
    shear = 0.03 * levels * signs
    matrices[:, 0, 1] = torch.where(kinds == SHEAR_X, shear, 0.0)
    matrices[:, 1, 0] = torch.where(kinds == SHEAR_Y, shear, 0.0)
    for kind, axis, size in ((SHIFT_X, 0, width), (SHIFT_Y, 1, height)):
        matrices[:, axis, 2] = torch.where(kinds == kind, (levels * size / 30).trunc() * signs, 0.0)
    turn = torch.where(kinds == ROTATE, (levels * 3).trunc() * signs, 0.0) * (math.pi / 180)
    middle = torch.tensor([width / 2, height / 2])
    rotation = torch.stack([turn.cos(), -turn.sin(), turn.sin(), turn.cos()], dim=1).view(-1, 2, 2)
    turned = turn != 0
    matrices[turned, :, :2] = rotation[turned]
    matrices[turned, :, 2] = middle - (rotation[turned] * middle).sum(2)
    return matrices


def affine(images: Tensor, matrices: Tensor) -> Tensor:
    """Move 8-bit images, bilinear, as Pillow does: the edge is drawn out by half a pixel, beyond it is the fill.

    The matrices are on the CPU.
    """
    height, width = images.shape[-2:]
    # To the coordinates of grid_sample, from -1 to 1 between the outer edges of the image.
    size = torch.tensor([width, height, 1.0])
    theta = matrices * (size / size[:2, None])
    theta[:, :, 2] = theta[:, :, 2] * 2 + theta[:, :, :2].sum(2) - 1
    with full_precision(images):
        grid = F.affine_grid(sent(theta, images), [*images.shape], align_corners=False)
    outside = ((grid < -1) | (grid >= 1)).any(3)
    moved = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    moved += 1e-2  # the conversion cuts off, as Pillow's does, and rounding errors must not cost a level
    for channel, fill in enumerate(FILL):
        moved[:, channel].masked_fill_(outside, fill)
    return moved.to(images.dtype)
