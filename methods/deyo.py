"""DeYO: learn from samples whose class needs the object's shape, not only from those the model is sure of.

A model may be sure for the wrong reason, such as the background. Destroying an object's shape shows which: if the
probability of the predicted class drops, shape mattered. Per batch:
1. forward; samples whose entropy is below `entropy_threshold` go on;
2. their images are cut into `patch_len` x `patch_len` patches, shuffled, and predicted again without a graph. PLPD is
   the drop of the predicted class's probability; samples above `plpd_threshold` are kept;
3. each kept sample weighs exp(entropy_margin - entropy) + exp(PLPD), a sum of both; one step on the mean weighted
   entropy of the kept ones, none if there are none.
Norm layers of all but the late blocks adapt, as in SAR; the logits are those of step 1, before the update.

Source: Lee et al., "Entropy is not Enough for Test-Time Adaptation: From the Perspective of Disentangled
Factors", ICLR 2024 (Jhyun17/DeYO). Thresholds are the published 0.5 and 0.4 times ln(classes), rates those of
SAR, and `plpd_threshold` 0.2 as in the authors' runs with LayerNorm and GroupNorm, 0.3 with BatchNorm.
`augmentation` has their alternatives: "occlusion" covers a square with the mean colour, "pixel" shuffles the
pixels of a whole batch alike. Departs from the code: samples that are not kept get no backward pass; `reset`
works, which theirs does not; evaluation mode throughout (see `_norms.set_up`); late blocks of a ViT-L as in
sar.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.errors import UserError
from tta_bench.method import Method

from ._draws import Draws
from ._entropy import entropy, reliable, threshold_or_default
from ._host import sent
from ._norms import frozen_modules, norm_parameters, published_lr, samples_interact, set_up
from ._optim import Sgd, gradients
from ._passes import Passes
from ._ranges import not_negative


class Deyo(Method):
    """Entropy minimisation over samples that are sure, and sure because of shape; both weigh.

    `reweight_ent` and `reweight_plpd` scale the two weights; with both 0 all kept samples count alike.
    """

    paper = "Lee et al., ICLR 2024"
    bibtex = """@inproceedings{lee2024deyo,
        title = {Entropy is not Enough for Test-Time Adaptation: From the Perspective of Disentangled Factors},
        author = {Lee, Jonghyun and Jung, Dahuin and Lee, Saehyung and Park, Junsung and Shin, Juhyeon and Hwang, Uiwon
            and Yoon, Sungroh},
        booktitle = {International Conference on Learning Representations},
        year = {2024},
    }"""
    adapts = "norm layers but those of late blocks"
    passes = "1 forward; 1 of reliable samples with shape destroyed; 1 forward and backward of kept samples"
    passes_per_image = (2.5, 0.7)
    kind = "norms"
    published_batch_size = 64

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float | None = None,
        momentum: float = 0.9,
        entropy_threshold: float | None = None,
        entropy_margin: float | None = None,
        plpd_threshold: float | None = None,
        reweight_ent: float = 1.0,
        reweight_plpd: float = 1.0,
        augmentation: Literal["patch", "occlusion", "pixel"] = "patch",
        patch_len: int = 4,
        occlusion_size: int | None = None,
        occlusion_row: int | None = None,
        occlusion_column: int | None = None,
        frozen_blocks: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if patch_len < 1:
            raise ValueError(f"patch_len is {patch_len}, expected the number of patches along a side, 1 or more")
        if occlusion_size is not None and occlusion_size < 1:
            raise ValueError(f"occlusion_size is {occlusion_size}, expected a number of pixels, 1 or more")
        not_negative(
            entropy_threshold=entropy_threshold or 0,
            reweight_ent=reweight_ent,
            reweight_plpd=reweight_plpd,
            occlusion_row=occlusion_row or 0,
            occlusion_column=occlusion_column or 0,
        )
        # The driver doubles the rate when samples come one by one.
        self.lr = published_lr(model, batch_size) * (2 if batch_size == 1 else 1) if lr is None else lr
        self.momentum = momentum
        self.entropy_threshold = 0.5 * math.log(num_classes) if entropy_threshold is None else entropy_threshold
        self.entropy_margin = threshold_or_default(entropy_margin, num_classes)
        self.reweight_ent, self.reweight_plpd = reweight_ent, reweight_plpd
        self.augmentation, self.patch_len = augmentation, patch_len
        self.occlusion_size, self.occlusion_row, self.occlusion_column = occlusion_size, occlusion_row, occlusion_column
        self.seed = seed
        self._adapted = norm_parameters(model, frozen_modules(model, frozen_blocks))
        set_up(model, list(self._adapted.values()))
        published = 0.3 if samples_interact(model) else 0.2
        self.plpd_threshold = published if plpd_threshold is None else plpd_threshold
        self._passes = Passes(model)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._sgd = Sgd(list(self._adapted.values()), lr=self.lr, momentum=self.momentum)
        self._passes.forget()
        self._draws = Draws(self.seed)

    def patch_order(self, images: int, patches: int) -> Tensor:
        """An order of patches for each image, [images, patches]: new patch j is old patch order[j]."""
        return torch.rand(images, patches, generator=self._draws.cpu).argsort(1)

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        drops = batch.new_empty(0)

        def keep(logits: Tensor) -> Tensor:
            nonlocal drops
            chosen, drops = self._kept(batch, logits)
            return chosen

        look = self._passes.look(batch, keep)
        if look.chosen_logits is not None:
            values = entropy(look.chosen_logits)
            loss = (self._weights(values.detach(), drops) * values).mean()
            self._sgd.step(gradients(loss, self._sgd.tensors))
        return look.logits

    @torch.no_grad()
    def _kept(self, batch: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Indices of the samples that pass both filters, and by how much their class's probability drops."""
        sure = reliable(entropy(logits), self.entropy_threshold)
        if not len(sure):
            return sure, logits.new_empty(0)
        altered = self._passes.everyone(self._destroyed(batch[sure]))
        before, label = logits[sure].float().softmax(1).max(1)
        drops = before - altered.float().softmax(1).gather(1, label[:, None])[:, 0]
        kept = (drops > self.plpd_threshold).nonzero().squeeze(1)
        return sure[kept], drops[kept]

    def _weights(self, values: Tensor, drops: Tensor) -> Tensor:
        if not (self.reweight_ent or self.reweight_plpd):
            return torch.ones_like(values)
        return self.reweight_ent * (self.entropy_margin - values).exp() + self.reweight_plpd * drops.exp()

    def _destroyed(self, images: Tensor) -> Tensor:
        """The images without the shapes of objects."""
        if self.augmentation == "patch":
            return self._shuffled(images)
        if self.augmentation == "pixel":
            order = sent(self.patch_order(1, images[0, 0].numel())[0], images)
            return images.flatten(2)[..., order].view_as(images)
        rows, columns = self._occluded(*images.shape[-2:])
        images = images.clone()
        images[..., rows, columns] = images.mean((2, 3), keepdim=True)
        return images

    def _occluded(self, height: int, width: int) -> tuple[slice, slice]:
        """The square that is covered; by default the middle, at 224 px the released 112 from 56."""
        size = height // 2 if self.occlusion_size is None else self.occlusion_size
        row = height // 4 if self.occlusion_row is None else self.occlusion_row
        column = width // 4 if self.occlusion_column is None else self.occlusion_column
        if not (0 <= row < height and 0 <= column < width):
            raise UserError(
                f"deyo: the occlusion at occlusion_row {row}, occlusion_column {column} lies outside images of "
                f"{height} x {width} pixels"
            )
        return slice(row, row + size), slice(column, column + size)

    def _shuffled(self, images: Tensor) -> Tensor:
        side = self.patch_len
        height, width = images.shape[-2:]
        if min(height, width) < side:
            raise UserError(f"deyo: images of {height} x {width} pixels have no {side} patches along a side: patch_len")
        fitting = height // side * side, width // side * side
        grid = _resized(images, fitting).unflatten(3, (side, -1)).unflatten(2, (side, -1))
        patches = grid.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
        order = sent(self.patch_order(len(images), side * side), images)
        patches = patches[torch.arange(len(images), device=images.device)[:, None], order]
        glued = patches.unflatten(1, (side, side)).permute(0, 3, 1, 4, 2, 5).reshape(*images.shape[:2], *fitting)
        return _resized(glued, (height, width))


def _resized(images: Tensor, size: tuple[int, int]) -> Tensor:
    """As torchvision resizes today: bilinear, and smoothed first where it shrinks."""
    if tuple(images.shape[-2:]) == size:
        return images
    return F.interpolate(images, size=size, mode="bilinear", align_corners=False, antialias=True)
