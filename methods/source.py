"""Source: the model as it was trained, without adaptation. The row every other row is compared with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tta_bench.method import Method


class Source(Method):
    """One forward pass in evaluation mode; nothing is learned."""

    paper = "no adaptation"
    adapts = "nothing"
    passes = "1 forward"
    passes_per_image = (1, 0)

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.model.eval().requires_grad_(False)

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        logits: Tensor = self.model(batch)
        return logits
