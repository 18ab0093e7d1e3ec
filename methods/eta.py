"""ETA: learn from samples that are reliable and not yet familiar, and from the surer ones more.

Per batch: a sample is reliable when its entropy is below a threshold, and new when its prediction points
elsewhere than the moving average of what was learned from before (cosine below `redundancy_threshold`). The
loss is the mean entropy of the samples that pass both filters, each weighted by exp(threshold - entropy);
nothing kept, no step. All norm layers adapt; the logits are those of the first forward, before the step.

Source: Niu et al., "Efficient Test-Time Model Adaptation without Forgetting", ICML 2022 (mr-eggplant/EATA),
in the variant of the SAR authors (mr-eggplant/SAR, eata.py), which handles LayerNorm. ETA is EATA without
the Fisher anchor. Departs from it: evaluation mode throughout (see `_norms.set_up`); samples that are not
kept get no backward pass; `reset` forgets the moving average too, which the released reset keeps.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.method import Method

from ._entropy import entropy, threshold_or_default
from ._norms import norm_parameters, published_lr, set_up
from ._optim import Sgd, Tensors, gradients
from ._passes import Passes
from ._ranges import not_negative


class Eta(Method):
    """Entropy minimisation over the samples that pass both filters, weighted by how sure they are."""

    paper = "Niu et al., ICML 2022"
    bibtex = """@inproceedings{niu2022eata,
        title = {Efficient Test-Time Model Adaptation without Forgetting},
        author = {Niu, Shuaicheng and Wu, Jiaxiang and Zhang, Yifan and Chen, Yaofo and Zheng, Shijian and Zhao, Peilin
            and Tan, Mingkui},
        booktitle = {International Conference on Machine Learning},
        year = {2022},
    }"""
    adapts = "all norm layers"
    passes = "1 forward; 1 forward and backward of kept samples"
    passes_per_image = (1.4, 0.9)
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
        redundancy_threshold: float = 0.05,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.lr = published_lr(model, batch_size) if lr is None else lr
        self.momentum = momentum
        not_negative(entropy_threshold=entropy_threshold or 0, redundancy_threshold=redundancy_threshold)
        self.entropy_threshold = threshold_or_default(entropy_threshold, num_classes)
        self.redundancy_threshold = redundancy_threshold
        self._adapted = norm_parameters(model)
        set_up(model, list(self._adapted.values()))
        self._passes = Passes(model)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._sgd = Sgd(list(self._adapted.values()), lr=self.lr, momentum=self.momentum)
        self._passes.forget()
        self._familiar: Tensor | None = None

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self._passes.everyone(batch)}

    def entropies(self, logits: Tensor) -> Tensor:
        """What is lowered, per sample. COME lowers another entropy."""
        return entropy(logits)

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        look = self._passes.look(batch, self._keep)
        if look.chosen_logits is not None:
            self._familiarise(look.logits[look.chosen])
            values = self.entropies(look.chosen_logits)
            weights = (self.entropy_threshold - values.detach()).exp()
            self._sgd.step(self._anchored(gradients((weights * values).mean(), self._sgd.tensors)))
        return look.logits

    def _keep(self, logits: Tensor) -> Tensor:
        """Indices of the samples that are reliable and, once something was learned, new."""
        keep = self.entropies(logits) < self.entropy_threshold
        if self._familiar is not None:
            likeness = F.cosine_similarity(self._familiar[None], logits.softmax(1), dim=1)
            keep &= likeness.abs() < self.redundancy_threshold
        return keep.nonzero().squeeze(1)

    def _familiarise(self, kept_logits: Tensor) -> None:
        """Move the average prediction a tenth of the way to that of the samples kept now."""
        mean = kept_logits.softmax(1).mean(0)
        self._familiar = mean if self._familiar is None else 0.9 * self._familiar + 0.1 * mean

    def _anchored(self, grads: Tensors) -> Tensors:
        """ETA has no anchor: the gradients as they are."""
        return grads
