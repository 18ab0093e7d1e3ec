"""TRIBE: BatchNorm statistics balanced over classes, and an anchor that keeps self-training from drifting.

Streams in which few classes are frequent bend statistics and pseudo-labels towards these classes. So statistics are
kept per class (`_balanced.py`), and three nets share one architecture, each with statistics of its own: the student; an
auxiliary with the student's weights; an anchor with the source weights. Per batch:
1. the auxiliary predicts the batch: these logits are returned, their classes label the batch for all statistics;
2. auxiliary and anchor pass the batch, the student a view of it (colours, turn, shift, blur, flip, noise), and the
   statistics of each follow;
3. loss over images whose auxiliary prediction has low entropy = cross-entropy of the student with the auxiliary's
   classes + `anchor_weight` times the mean squared distance between logits of the auxiliary and of the anchor. The
   second term trains the shared weights through the auxiliary;
4. one Adam step on weights and biases of all BatchNorm layers.

Source: Su, Xu and Jia, "Towards Real-World Test-Time Adaptation: Tri-Net Self-Training with Balanced Normalization",
AAAI 2024 (Gorilla-Lab-SCUT/TRIBE). The defaults are those for ImageNet; the published ones for CIFAR-10 are lr 1e-3,
`bn_rate` 0.01, `bn_share` 0 and a threshold of 0.05 ln 10, those for CIFAR-100 lr 1e-3, 0.05, 0.1 and 0.2 ln 100. As
released, a batch without a confident image has no gradient at all and Adam moves on by its momentum. Departs from the
code: evaluation mode but for the statistics. BatchNorm only, as released: a model without it is refused.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.method import Method

from ._augment import ColourAndAffine
from ._balanced import BalancedStatistics, Labels
from ._batchnorm import affine_parameters, batch_norms
from ._draws import Draws
from ._entropy import entropy, reliable, threshold_or_default
from ._head import frozen
from ._optim import Adam, gradients
from ._ranges import not_negative, positive, shares
from ._weights import lent


class Tribe(Method):
    """Self-training of BatchNorm layers with class-balanced statistics and a source anchor."""

    paper = "Su et al., AAAI 2024"
    bibtex = """@inproceedings{su2024tribe,
        title = {Towards Real-World Test-Time Adaptation: Tri-Net Self-Training with Balanced Normalization},
        author = {Su, Yongyi and Xu, Xun and Jia, Kui},
        booktitle = {AAAI Conference on Artificial Intelligence},
        year = {2024},
    }"""
    adapts = "BatchNorm layers, and statistics per class"
    passes = "2 forwards; 2 forwards and backwards"
    passes_per_image = (4, 2)
    kind = "norms"
    published_batch_size = 64

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 5e-4,
        bn_rate: float = 0.5,
        bn_share: float = 0.5,
        anchor_weight: float = 0.5,
        entropy_threshold: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        positive(bn_rate=bn_rate)
        shares(bn_rate=bn_rate, bn_share=bn_share)
        not_negative(anchor_weight=anchor_weight, entropy_threshold=entropy_threshold or 0)
        self.lr, self.bn_rate, self.bn_share = lr, bn_rate, bn_share
        self.anchor_weight, self.seed = anchor_weight, seed
        self.entropy_threshold = threshold_or_default(entropy_threshold, num_classes)
        self._norms = batch_norms(frozen(model), "tribe")
        self._adapted = affine_parameters(model, "tribe")
        for parameter in self._adapted.values():
            parameter.requires_grad_(True)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._adam = Adam(list(self._adapted.values()), lr=self.lr)
        self._views = ColourAndAffine(Draws(self.seed), padding="edge", blur=True, noise=0.005)
        self._student, self._auxiliary, self._anchor = (self._source_statistics() for _ in range(3))

    def _source_statistics(self) -> BalancedStatistics:
        return BalancedStatistics(self._norms, classes=self.num_classes, rate=self.bn_rate, share=self.bn_share)

    def augment(self, images: Tensor) -> Tensor:
        """The view that the student learns from: one draw of colours, place and mirroring for the whole batch."""
        return self._views(images)

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        with self._auxiliary.in_place():
            return {"logits": self.model(batch)}

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        logits = self.predict(batch)
        labels = Labels.of(logits.argmax(1))
        with torch.no_grad(), lent(self._adam.tensors, list(self.snapshot.values())), self._anchor.in_place(labels):
            anchor = self.model(batch).float()
        with self._auxiliary.in_place(labels):
            auxiliary = self.model(batch).float()
        with self._student.in_place(labels):
            student = self.model(self.augment(batch)).float()
        self._adam.step(gradients(self._loss(student, auxiliary, anchor), self._adam.tensors))
        return logits

    def _loss(self, student: Tensor, auxiliary: Tensor, anchor: Tensor) -> Tensor | None:
        """Over the images that the auxiliary is sure of; None if there is none."""
        kept = reliable(entropy(auxiliary.detach()), self.entropy_threshold)
        if not len(kept):
            return None
        drift = (auxiliary[kept] - anchor[kept]).square().mean()
        return F.cross_entropy(student[kept], auxiliary[kept].argmax(1)) + self.anchor_weight * drift
