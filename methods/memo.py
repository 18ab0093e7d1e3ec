"""MEMO: make the model agree with itself over many altered views of one image, then forget it again.

Each image is a task of its own. Per image:
1. the weights return to the source model's;
2. forward of `augmentations` AugMix views (`_augmix.py`); the loss is the entropy of their mean prediction, low where
   the views agree and are sure;
3. one step on all parameters; the logits of the plain image come from the weights after it.

Source: Zhang et al., "MEMO: Test Time Robustness via Adaptation and Augmentation", NeurIPS 2022 (zhangmarvin/memo,
imagenet-exps). As released, the optimiser is made once: AdamW's moments go on from image to image while the weights do
not; `reset_optimizer` starts them with each image, as the paper's "independently" suggests. The default optimiser is
the published one by the kind of model: with LayerNorm AdamW at 1e-5 with weight decay 0.01 (as for their RVT), without
SGD at 2.5e-4, no momentum. On BatchNorm models each layer mixes the statistics of what passes with `prior_strength`
times as much of the source's, as released; a negative strength means the source's alone. Departs from the code: a map
of one pixel in one image, which has no variance, keeps the source's, where the code stops. Views are cut from the image
as the model sees it, 224 px, not from the file.

The state after a batch is that of its last image, as released; `predict` uses the source weights.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tta_bench.method import Method

from ._augmix import AugMix
from ._batchnorm import SourceStatistics
from ._draws import Draws
from ._lean import Lean
from ._optim import AdamW, Descent, Sgd, gradients
from ._weights import lent

CPU_PIECE = 10_000_000  # bytes of views in one pass: more no longer fit into the caches of a CPU


class Memo(Method):
    """Entropy of the mean prediction over augmented views of one image; nothing is kept for the next."""

    paper = "Zhang et al., NeurIPS 2022"
    bibtex = """@inproceedings{zhang2022memo,
        title = {MEMO: Test Time Robustness via Adaptation and Augmentation},
        author = {Zhang, Marvin and Levine, Sergey and Finn, Chelsea},
        booktitle = {Advances in Neural Information Processing Systems},
        year = {2022},
    }"""
    adapts = "all parameters, for one image at a time"
    passes = "1 forward; 1 forward and backward of each view"
    passes_per_image = (65, 64)
    kind = "all weights"
    published_batch_size = 1
    slower_than_source = 2000.0  # 64 views are 200 forwards; one image at a time may be ten times slower
    score_point = "post-update"

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        optimizer: Literal["sgd", "adamw"] | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        augmentations: int = 64,
        reset_optimizer: bool = False,
        prior_strength: float = 16.0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if augmentations < 1:
            raise ValueError(f"augmentations is {augmentations}, expected 1 or more views of each image")
        if optimizer is None:
            optimizer = "adamw" if any(isinstance(m, nn.LayerNorm) for m in model.modules()) else "sgd"
        published_lr, published_decay = (1e-5, 0.01) if optimizer == "adamw" else (2.5e-4, 0.0)
        self.optimizer = optimizer
        self.lr = published_lr if lr is None else lr
        self.weight_decay = published_decay if weight_decay is None else weight_decay
        self.augmentations, self.reset_optimizer, self.seed = augmentations, reset_optimizer, seed
        self._share = 1 / (prior_strength + 1) if prior_strength >= 0 else 0.0  # of what passes in the statistics
        self._adapted = dict(model.named_parameters())
        model.eval().requires_grad_(True)
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        self._norms = [norm for norm in norms if norm.running_mean is not None] if self._share else []
        self._source = SourceStatistics(model)
        self._lean = Lean(model)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._descent = self._new_descent()
        self._augmix = AugMix(Draws(self.seed))

    def _new_descent(self) -> Descent:
        tensors: list[Tensor] = list(self._adapted.values())
        if self.optimizer == "adamw":
            return AdamW(tensors, lr=self.lr, weight_decay=self.weight_decay)
        return Sgd(tensors, lr=self.lr, weight_decay=self.weight_decay)

    def views(self, images: Tensor, count: int) -> Tensor:
        """Augmented copies [count, B, 3, H, W]; each copy of each image is drawn by itself."""
        return self._augmix(images, count)

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        return torch.cat([self._adapt_to(image) for image in batch.split(1)])

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        """Of the source model: what an image taught is for that image alone."""
        source = [self.snapshot[name] for name in self._adapted]
        with lent(list(self._adapted.values()), source):
            return {"logits": torch.cat([self._forward(image) for image in batch.split(1)])}

    def _adapt_to(self, image: Tensor) -> Tensor:
        self.load_adapted_state(self.snapshot)
        if self.reset_optimizer:
            self._descent = self._new_descent()
        loss = marginal_entropy(self._of_views(self.views(image, self.augmentations)[:, 0]))
        self._descent.step(gradients(loss, self._descent.tensors))
        with torch.no_grad():
            return self._forward(image)

    def _of_views(self, views: Tensor) -> Tensor:
        """Logits with a graph: in pieces where samples do not interact, and a CPU is quicker that way."""
        if self._norms or views.device.type != "cpu":
            return self._forward(views)
        size = max(1, CPU_PIECE // views[0].nbytes)
        return torch.cat([self._forward(piece) for piece in views.split(size)])

    def _forward(self, images: Tensor) -> Tensor:
        """Logits; BatchNorm layers normalise by the source's statistics mixed with those of these images."""
        with self._source.restored():  # the hooks put mixed statistics in their place
            hooks = [norm.register_forward_pre_hook(self._mix) for norm in self._norms]
            try:
                return self._lean(images)
            finally:
                for hook in hooks:
                    hook.remove()

    @torch.no_grad()
    def _mix(self, norm: Any, args: tuple[Any, ...]) -> None:
        values = args[0].float()
        norm.running_mean = torch.lerp(norm.running_mean, values.mean((0, 2, 3)), self._share)
        if values.numel() > values.shape[1]:
            norm.running_var = torch.lerp(norm.running_var, values.var((0, 2, 3)), self._share)


def marginal_entropy(logits: Tensor) -> Tensor:
    """Entropy of the mean prediction, in nats, from logits [views, classes]."""
    log_p = logits.float().log_softmax(1).logsumexp(0) - math.log(len(logits))
    return -(log_p.clamp_min(torch.finfo(log_p.dtype).min) * log_p.exp()).sum()
