"""SHOT-IM, online: be sure of each image, and of different classes over the batch.

Entropy alone is lowest when every image gets the same class, so information maximisation (IM) rewards variety as well.
Per batch: one forward; loss = mean entropy of the predictions - entropy of the mean prediction; one step with the
gradient clipped at `max_grad_norm`. The logits are those of the forward, before the step.

Source: Liang et al., "Do We Really Need to Access the Source Data? Source Hypothesis Transfer for Unsupervised Domain
Adaptation", ICML 2020 (tim-learn/SHOT). The authors train for epochs over the whole target set; the online form exists
in others' code only, and no two agree. The defaults are those of kojima-takeshi188/CFA, the only one for ViT-B on
ImageNet-C: norm layers, SGD. Settings give the others:
- matsuolab/T3A: `parameters="extractor"` (all but the classifier), `optimizer="adam"`, no clipping;
- LINs-lab/ttab: `parameters="extractor-modules"` (leaves out class token and positions), nesterov, no clipping, and
  `pseudo_weight` 0.3: cross-entropy with its own predictions where their probability is above `pseudo_threshold`;
- MotasemAlfarra/Online_Test_Time_Adaptation: BatchNorm, lr 0.01, no clipping.
Departs from them: BatchNorm always uses the statistics of the batch (T3A's port keeps those of the source, ttab's
moves running ones too); all norms of a ResNet adapt, where CFA's port leaves those of shortcuts alone; the loss stays
finite where a class's mean probability rounds to 0; without a confident prediction the pseudo-label part is left out
(ttab's loss is NaN there, its step is the same). For a single image both entropies cancel: nothing is learned. A batch
smaller than the number of classes cannot be as varied as the loss asks for.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.method import Method

from ._entropy import entropy
from ._head import linear_classifier
from ._norms import norm_parameters, set_up
from ._optim import Adam, Descent, Sgd, clipped, gradients
from ._passes import Passes
from ._ranges import not_negative, shares

Adapted = Literal["norms", "extractor", "extractor-modules"]


class ShotIm(Method):
    """Information maximisation: low entropy of each prediction, high entropy of their mean."""

    paper = "Liang et al., ICML 2020"
    bibtex = """@inproceedings{liang2020shot,
        title = {Do We Really Need to Access the Source Data? Source Hypothesis Transfer for Unsupervised Domain
            Adaptation},
        author = {Liang, Jian and Hu, Dapeng and Feng, Jiashi},
        booktitle = {International Conference on Machine Learning},
        year = {2020},
    }"""
    adapts = "all norm layers, or all but the classifier"
    passes = "1 forward, 1 backward"
    passes_per_image = (1, 1)
    kind = "norms"
    published_batch_size = 64

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 1e-3,
        momentum: float = 0.9,
        nesterov: bool = False,
        optimizer: Literal["sgd", "adam"] = "sgd",
        weight_decay: float = 0.0,
        parameters: Adapted = "norms",
        max_grad_norm: float = 1.0,
        pseudo_weight: float = 0.0,
        pseudo_threshold: float = 0.9,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        not_negative(max_grad_norm=max_grad_norm, pseudo_weight=pseudo_weight)
        shares(pseudo_threshold=pseudo_threshold)
        if nesterov and not momentum:
            raise ValueError("nesterov is true and momentum is 0, expected momentum above 0")
        self.lr, self.momentum, self.nesterov = lr, momentum, nesterov
        self.optimizer, self.weight_decay = optimizer, weight_decay
        self.parameters, self.max_grad_norm = parameters, max_grad_norm
        self.pseudo_weight, self.pseudo_threshold = pseudo_weight, pseudo_threshold
        self._adapted = norm_parameters(model) if parameters == "norms" else self._extractor()
        set_up(model, list(self._adapted.values()))
        self._passes = Passes(model)
        self.forget()

    def _extractor(self) -> dict[str, nn.Parameter]:
        """All parameters but the classifier's, and but those that the model holds outside of any layer."""
        left_out = list(linear_classifier(self.model, "shot-im", self.num_classes).parameters())
        if self.parameters == "extractor-modules":
            left_out += self._trunk().parameters(recurse=False)
        ids = set(map(id, left_out))
        return {name: parameter for name, parameter in self.model.named_parameters() if id(parameter) not in ids}

    def _trunk(self) -> nn.Module:
        """The part that owns the classifier: the model itself, unless something wraps it."""
        return next((part for part in self.model.modules() if hasattr(part, "get_classifier")), self.model)

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        tensors: list[Tensor] = list(self._adapted.values())
        self._descent: Descent = (
            Adam(tensors, lr=self.lr, weight_decay=self.weight_decay)
            if self.optimizer == "adam"
            else Sgd(
                tensors, lr=self.lr, momentum=self.momentum, nesterov=self.nesterov, weight_decay=self.weight_decay
            )
        )

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self._passes.everyone(batch)}

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        logits = self._passes.everyone(batch)
        grads = gradients(self._loss(logits.float()), self._descent.tensors)
        self._descent.step(clipped(grads, self.max_grad_norm) if self.max_grad_norm else grads)
        return logits.detach()

    def _loss(self, logits: Tensor) -> Tensor | None:
        """None if there is nothing to learn from."""
        terms = []
        if len(logits) > 1:  # one prediction is its own mean; Adam would make steps of what rounding leaves
            log_mean = logits.log_softmax(1).logsumexp(0) - math.log(len(logits))
            terms += [entropy(logits).mean(), (log_mean.exp() * log_mean).sum()]
        if self.pseudo_weight:
            kept = logits[(logits.detach().softmax(1).amax(1) > self.pseudo_threshold).nonzero().squeeze(1)]
            if len(kept):
                terms.append(self.pseudo_weight * F.cross_entropy(kept, kept.argmax(1)))
        return torch.stack(terms).sum() if terms else None
