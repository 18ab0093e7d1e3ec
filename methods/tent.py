"""TENT: lower the entropy of the predictions by adapting the norm layers.

A model is more often right where it is sure, so being sure is a goal that needs no label. Per batch: one
forward, the mean entropy of all predictions as loss, one SGD step on scale and shift of every norm layer.
The logits are those of the forward, before the step.

Source: Wang et al., "Tent: Fully Test-Time Adaptation by Entropy Minimization", ICLR 2021
(DequanWang/tent), in the variant of the SAR authors (mr-eggplant/SAR, tent.py), who extended it to
LayerNorm and GroupNorm and set the rates. Departs from it: evaluation mode throughout (see
`_norms.set_up`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tta_bench.method import Method

from ._entropy import entropy
from ._norms import norm_parameters, published_lr, set_up
from ._optim import Sgd, gradients
from ._passes import Passes


class Tent(Method):
    """Entropy minimisation over the whole batch; `steps` > 1 repeats the step on the same batch."""

    paper = "Wang et al., ICLR 2021"
    bibtex = """@inproceedings{wang2021tent,
        title = {Tent: Fully Test-Time Adaptation by Entropy Minimization},
        author = {Wang, Dequan and Shelhamer, Evan and Liu, Shaoteng and Olshausen, Bruno and Darrell, Trevor},
        booktitle = {International Conference on Learning Representations},
        year = {2021},
    }"""
    adapts = "all norm layers"
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
        lr: float | None = None,
        momentum: float = 0.9,
        steps: int = 1,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if steps < 1:
            raise ValueError(f"steps is {steps}, expected 1 or more")
        self.lr = published_lr(model, batch_size) if lr is None else lr
        self.momentum = momentum
        self.steps = steps
        self.score_point = "post-update" if steps > 1 else "pre-update"  # earlier steps on the same batch count
        self._adapted = norm_parameters(model)
        set_up(model, list(self._adapted.values()))
        self._passes = Passes(model)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._sgd = Sgd(list(self._adapted.values()), lr=self.lr, momentum=self.momentum)

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self._passes.everyone(batch)}

    def entropies(self, logits: Tensor) -> Tensor:
        """What is lowered, per sample. COME lowers another entropy."""
        return entropy(logits)

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        for _ in range(self.steps):
            logits = self._passes.everyone(batch)
            self._sgd.step(gradients(self.entropies(logits).mean(), self._sgd.tensors))
        return logits.detach()
