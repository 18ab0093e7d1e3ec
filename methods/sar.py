"""SAR: learn from reliable samples only, and towards weights whose neighbours are good too.

Samples of high entropy bring large, noisy gradients, and sharp minima break under the next one. Per batch:
1. forward; samples whose entropy is below a threshold are reliable; gradient of their mean entropy;
2. SAM: move `rho` up that slope; look again at the reliable samples, keep those still below the threshold,
   take the gradient of their mean entropy there, step with it from where the weights were;
3. a moving average of the second loss that falls below `reset_threshold` means collapse: back to the source
   weights.
Norm layers of all but the late blocks adapt (see `frozen_blocks`); the logits are those of the first
forward.

Source: Niu et al., "Towards Stable Test-Time Adaptation in Dynamic Wild World", ICLR 2023
(mr-eggplant/SAR). Departs from it: the second pass runs on reliable samples alone where samples do not
interact (same result); the norms of frozen blocks get no gradients that nobody uses; evaluation mode
throughout (see `_norms.set_up`). The released rule freezes blocks 9, 10, 11 by name, ViT-L included; the
default here is that of the DPAL authors, which adds 21, 22, 23. `recovery` chooses between the two readings
of step 3 (see `_recovery.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from tta_bench.method import Method

from ._entropy import entropy, mean_reliable, reliable, threshold_or_default
from ._norms import frozen_modules, norm_parameters, published_lr, set_up
from ._optim import Sam, Tensors, gradients
from ._passes import Passes
from ._ranges import not_negative
from ._recovery import CollapseWatch, Recovery


class Sar(Method):
    """Sharpness-aware entropy minimisation over reliable samples, with recovery from collapse.

    `score="second"` returns the logits of the perturbed pass: the fair control for DPAL as released.
    """

    paper = "Niu et al., ICLR 2023"
    bibtex = """@inproceedings{niu2023sar,
        title = {Towards Stable Test-Time Adaptation in Dynamic Wild World},
        author = {Niu, Shuaicheng and Wu, Jiaxiang and Zhang, Yifan and Wen, Zhiquan and Chen, Yaofo and Zhao, Peilin
            and Tan, Mingkui},
        booktitle = {International Conference on Learning Representations},
        year = {2023},
    }"""
    adapts = "norm layers but those of late blocks"
    passes = "1 forward; 2 forwards and backwards of reliable samples"
    passes_per_image = (2, 1.8)
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
        rho: float = 0.05,
        entropy_threshold: float | None = None,
        reset_threshold: float = 0.2,
        recovery: Recovery = "released",
        frozen_blocks: Sequence[int] | None = None,
        score: Literal["first", "second"] = "first",
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        # The driver doubles the rate when samples come one by one.
        self.lr = published_lr(model, batch_size) * (2 if batch_size == 1 else 1) if lr is None else lr
        self.momentum = momentum
        not_negative(rho=rho)
        self.rho = rho
        not_negative(entropy_threshold=entropy_threshold or 0)
        self.entropy_threshold = threshold_or_default(entropy_threshold, num_classes)
        self.reset_threshold = reset_threshold
        self.recovery = recovery
        self.score = score
        self.score_point = "perturbed" if score == "second" else "pre-update"
        self._adapted = norm_parameters(model, frozen_modules(model, frozen_blocks))
        set_up(model, list(self._adapted.values()))
        self._passes = Passes(model)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._sam = Sam(list(self._adapted.values()), lr=self.lr, momentum=self.momentum, rho=self.rho)
        self._watch = CollapseWatch(self.reset_threshold)
        self._passes.forget()

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self._passes.everyone(batch)}

    def entropies(self, logits: Tensor) -> Tensor:
        """What is lowered, per sample. COME lowers another entropy."""
        return entropy(logits)

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        look = self._passes.look(batch, lambda logits: reliable(self.entropies(logits), self.entropy_threshold))
        if look.chosen_logits is None:
            # As released, momentum still moves the weights, and the average may still call for a recovery.
            self._finish(None, gradients(None, self._sam.tensors))
            return look.logits
        ascent = gradients(self.entropies(look.chosen_logits).mean(), self._sam.tensors)
        second = self.score == "second"
        with self._sam.perturbed(ascent):
            logits, chosen_logits = self._passes.look_again(batch, look.chosen, all_logits=second)
            mean = mean_reliable(self.entropies(chosen_logits), self.entropy_threshold)
            descent = gradients(mean.loss, self._sam.tensors)
        self._finish(mean.value, descent)
        return logits if second else look.logits

    def _finish(self, loss: float | None, descent: Tensors) -> None:
        """Step, then return to the source weights if the predictions have collapsed."""
        self._sam.step(descent)
        if self._watch.sees_collapse(loss):
            self.load_adapted_state(self.snapshot)
            self.resets += 1
            if self.recovery == "fixed":
                self.forget()
