"""AdaContrast's three views of an image: one weakly altered, two strongly, as in MoCo v2.

Strong: colour jitter with probability 0.8 (brightness, contrast and saturation by up to 40 %, hue by up to a tenth
of the circle, in random order), grey with 0.2, blur with 0.5 (sigma 0.1 to 2), mirrored with 0.5. With `crop`, a
random crop of 20 % (or of `smallest`) to 100 % of the image comes first, and the weak view is a random crop of 7/8 of a
side; without, the weak view is the image or its mirror image. Each image has its own draws.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ._colour import brightness, contrast, grey, hue, saturation
from ._crops import mirrored, mirrored_crops, random_resized_crops
from ._draws import Draws
from ._head import full_precision
from ._host import places, sent

CHANGES = ((brightness, 0.6, 1.4), (contrast, 0.6, 1.4), (saturation, 0.6, 1.4), (hue, -0.1, 0.1))
JITTER, GREYED, BLURRED = 0.8, 0.2, 0.5  # probabilities
SIGMA, BOXES, RADIUS = (0.1, 2.0), 3, 6
RESIZED = 8 / 7  # 256 px for 224


class MocoViews:
    """Draws weak and strong views of images in [0, 1]."""

    def __init__(self, draws: Draws, *, crop: bool, smallest: float = 0.2) -> None:
        self.draws, self.crop, self.smallest = draws, crop, smallest

    @torch.no_grad()
    def weak(self, images: Tensor) -> Tensor:
        if not self.crop:
            return mirrored(images, self.draws)
        height, width = images.shape[-2:]
        larger = torch.tensor([round(width * RESIZED), round(height * RESIZED)])
        shown = torch.tensor([width, height]) / larger  # of a side
        steps = larger - torch.tensor([width, height]) + 1
        offsets = (self.draws.uniforms(0, 1, len(images), 2) * steps).floor() * shown
        sizes = (torch.tensor([width, height]) * shown).expand(len(images), 2)
        return mirrored_crops(images, torch.cat([offsets, sizes], dim=1), self.draws, resized_first=True)

    @torch.no_grad()
    def strong(self, images: Tensor) -> Tensor:
        draws = self.draws
        small = self.smallest
        views = random_resized_crops(images, draws, smallest=small) if self.crop else mirrored(images, draws).clone()
        self._jitter(views)
        chosen = self._some(views, GREYED)
        views[chosen] = grey(views[chosen]).expand(-1, 3, -1, -1)
        chosen = self._some(views, BLURRED)
        sigmas = sent(draws.uniforms(*SIGMA, len(chosen)).to(views.dtype), views)
        if len(chosen):
            views[chosen] = blurred(views[chosen], sigmas)
        return views

    def _some(self, images: Tensor, probability: float) -> Tensor:
        chosen = self.draws.uniforms(0, 1, len(images)) < probability
        return sent(chosen.nonzero()[:, 0], images)

    def _jitter(self, images: Tensor) -> None:
        """Change colours in place; at each place of the order, images with the same change pass through it together."""
        count, draws = len(images), self.draws
        orders = draws.uniforms(0, 1, count, len(CHANGES)).argsort(1)
        orders[draws.uniforms(0, 1, count) >= JITTER] = -1
        factors = torch.stack([draws.uniforms(low, high, count) for _, low, high in CHANGES]).to(images.dtype)
        factors = sent(factors, images)[..., None, None, None]
        groups = iter(places([turn == kind for turn in orders.T for kind in range(len(CHANGES))], images))
        for _ in orders.T:
            for (change, *_), factor in zip(CHANGES, factors, strict=True):
                if len(chosen := next(groups)):
                    images[chosen] = change(images[chosen], factor[chosen])


def blurred(images: Tensor, sigmas: Tensor) -> Tensor:
    """Each image smoothed by its own Gaussian, as Pillow makes it; beyond the edge its pixels go on."""
    count, channels, height, width = images.shape
    planes = images.reshape(1, -1, height, width)
    with full_precision(images):
        weights = gaussians(sigmas).repeat_interleave(channels, 0)
        planes = F.pad(planes, [RADIUS] * 4, mode="replicate")
        planes = F.conv2d(planes, weights[:, None, None, :], groups=len(weights))
        planes = F.conv2d(planes, weights[:, None, :, None], groups=len(weights))
    return planes.view(count, channels, height, width)


def gaussians(sigmas: Tensor) -> Tensor:
    """Weights [n, 13] of Pillow's Gaussians: three boxes in a row, of a width that gives the wanted variance."""
    variance = (sigmas**2 / BOXES)[:, None]
    whole = ((12 * variance + 1).sqrt() / 2 - 0.5).floor()  # pixels on either side, and a part of one more
    part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance) / (6 * (variance - (whole + 1) ** 2))
    reach = RADIUS // BOXES
    distance = torch.arange(-reach, reach + 1, device=sigmas.device).abs()
    box = (distance <= whole) + part * (distance == whole + 1)
    box = box / box.sum(1, keepdim=True)
    weights = box
    for _ in range(BOXES - 1):
        weights = F.conv1d(weights[None], box[:, None], padding=2 * reach, groups=len(box))[0]
    return weights
