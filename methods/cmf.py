"""CMF: ROID with a Kalman filter that decides how much of the adapted weights to believe.

ROID pulls the weights towards a fixed source model. CMF pulls them towards hidden weights, which follow the adapted
ones at a rate that a continual momentum filter works out, and drift back to source. Steps 1, 2 and 4 are ROID's;
after the gradient step on all norm layers, with weights w:
1. predict: hidden = alpha * hidden + (1 - alpha) * source; variance = alpha^2 * variance + q;
2. gain: beta = r / (variance + r) with r = 1 - q, at least 0.89, and 1 from 0.9999 on; variance = beta * variance;
3. update: hidden = beta * hidden + (1 - beta) * w; then w = gamma * w + (1 - gamma) * hidden.
The larger q, the more the filter believes the adapted weights. The published q is 0.005 for the 38,400 norm weights
of a ViT-B and grows in proportion to their number.

Source: Lee and Chang, "Continual Momentum Filtering on Parameter Space for Online Test-time Adaptation", ICLR 2024
(j-pong/CMF), in float32 as mariodoebler/test-time-adaptation has it. Departs from the code: see roid.py; hidden weights
are kept for the norm layers alone, since those of all others stay at source. As released, the periodic reset
(`reset_interval`) keeps the variance; `reset()` clears it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ._ranges import shares
from ._variants import extends
from .roid import Roid


class Cmf(Roid):
    """ROID's losses and prior correction, with weights drawn towards filtered ones."""

    paper = "Lee and Chang, ICLR 2024"
    bibtex = """@inproceedings{lee2024cmf,
        title = {Continual Momentum Filtering on Parameter Space for Online Test-time Adaptation},
        author = {Lee, Jae-Hong and Chang, Joon-Hyuk},
        booktitle = {International Conference on Learning Representations},
        year = {2024},
    }"""
    adapts = "all norm layers, pulled to filtered weights"

    @extends(Roid.__init__, without=("momentum_src",))
    def __init__(
        self,
        model: nn.Module,
        *,
        alpha: float = 0.99,
        gamma: float = 0.99,
        q: float | None = None,
        **settings: Any,
    ) -> None:
        shares(alpha=alpha, gamma=gamma)
        self.alpha, self.gamma = alpha, gamma
        super().__init__(model, **settings)
        self.q = 0.005 * sum(tensor.numel() for tensor in self._adapted.values()) / 38_400 if q is None else q
        if not 0 <= self.q < 1:
            raise ValueError(f"q is {self.q:g}, expected a number from 0 to below 1 (the published one is 0.005)")

    def forget(self) -> None:
        super().forget()
        self._variance = 0.0

    def _forget_learning(self) -> None:
        super()._forget_learning()
        self._hidden: list[Tensor] = []  # the snapshot, once there is one

    @torch.no_grad()
    def _ensemble(self) -> None:
        source = list(self.snapshot.values())
        if not self._hidden:
            self._hidden = [tensor.clone() for tensor in source]
        torch._foreach_lerp_(self._hidden, source, 1 - self.alpha)
        torch._foreach_lerp_(self._hidden, self._sgd.tensors, 1 - self._gain())
        torch._foreach_lerp_(self._sgd.tensors, self._hidden, 1 - self.gamma)

    def _gain(self) -> float:
        """The filter's trust in the hidden weights; moves the variance on."""
        predicted = self.alpha**2 * self._variance + self.q
        beta = max((1 - self.q) / (predicted + 1 - self.q), 0.89)
        beta = 1.0 if beta >= 0.9999 else beta
        self._variance = beta * predicted
        return beta
