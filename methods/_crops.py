"""Random crops of a batch, resized to the size of the image, each with its own place, size and mirroring."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ._draws import Draws
from ._host import sent

TRIES = 10
RATIOS = 3 / 4, 4 / 3  # of width to height


def random_resized_crops(images: Tensor, draws: Draws, *, smallest: float) -> Tensor:
    """torchvision's RandomResizedCrop and RandomHorizontalFlip, with an area of `smallest` to 1 of the image's."""
    height, width = images.shape[-2:]
    boxes = draw_boxes(len(images), height, width, draws, smallest)
    return mirrored_crops(images, boxes, draws)


def draw_boxes(count: int, height: int, width: int, draws: Draws, smallest: float) -> Tensor:
    """Left, top, width and height of a crop for each of `count` images, [count, 4]: the first of ten that fits."""
    areas = height * width * draws.uniforms(smallest, 1, count, TRIES)
    ratios = draws.uniforms(math.log(RATIOS[0]), math.log(RATIOS[1]), count, TRIES).exp()
    wide, high = (areas * ratios).sqrt().round(), (areas / ratios).sqrt().round()
    fits = (wide >= 1) & (wide <= width) & (high >= 1) & (high <= height)
    first = fits.int().argmax(1, keepdim=True)
    wide, high = wide.gather(1, first)[:, 0], high.gather(1, first)[:, 0]
    # None fits: as much of the middle as has a ratio within bounds.
    none = ~fits.any(1)
    wide[none], high[none] = min(width, round(height * RATIOS[1])), min(height, round(width / RATIOS[0]))
    left = (draws.uniforms(0, 1, count) * (width - wide + 1)).floor().clamp_(max=width - 1)
    top = (draws.uniforms(0, 1, count) * (height - high + 1)).floor().clamp_(max=height - 1)
    left[none], top[none] = ((width - wide[none]) / 2).floor(), ((height - high[none]) / 2).floor()
    return torch.stack([left, top, wide, high], dim=1)


def mirrored(images: Tensor, draws: Draws) -> Tensor:
    """Each image or its mirror image, one as likely as the other."""
    mirror = sent(draws.whole(2, len(images), 1, 1, 1).bool(), images)
    return torch.where(mirror, images.flip(-1), images)


def mirrored_crops(images: Tensor, boxes: Tensor, draws: Draws, *, resized_first: bool = False) -> Tensor:
    """Each image's box, resized to the whole image, and mirrored with probability one half.

    A crop is never larger than the result, so plain bilinear sampling is what Pillow's resizing does. Its outermost
    pixels come from within the crop alone, or, where the image was `resized_first`, from its neighbourhood as well.
    """
    height, width = images.shape[-2:]
    mirror = draws.whole(2, len(images))[:, None] == 1
    left, top, wide, high = boxes.T[:, :, None]
    x = _places(width, left, wide, resized_first)
    x = torch.where(mirror, x.flip(1), x)
    y = _places(height, top, high, resized_first)
    grid = torch.empty(len(images), height, width, 2, device=images.device)
    grid[..., 0] = sent(x * (2 / max(width - 1, 1)) - 1, images)[:, None]
    grid[..., 1] = sent(y * (2 / max(height - 1, 1)) - 1, images)[:, :, None]
    return F.grid_sample(images, grid.to(images.dtype), padding_mode="border", align_corners=True)


def _places(size: int, start: Tensor, length: Tensor, resized_first: bool) -> Tensor:
    """Where along one axis the pixels of a resized crop come from."""
    wanted = (torch.arange(size) + 0.5) * (length / size) - 0.5
    return start + (wanted if resized_first else torch.minimum(wanted.clamp_min(0), length - 1))
