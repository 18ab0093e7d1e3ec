"""Forward passes that compute no more than a loss looks at, with the same result to rounding.

Where samples do not interact, a loss over few samples needs a graph of those few alone. Which passes are made depends
on the samples, never on the device: pass counts are part of a result, and in a live stream they decide to which batches
a method adapts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ._lean import Forward, Lean
from ._norms import samples_interact

# A backward pass costs about 1.2 forwards. With a share s of the samples chosen, a graph over all costs 2.2,
# a plain forward for all and a graph over the chosen 1 + 2.2 s: equal at s = 0.55.
BREAK_EVEN = 0.55
MEMORY = 0.8


class Look(NamedTuple):
    """What a pass found: logits of all samples, which samples were chosen, and their logits with a graph."""

    logits: Tensor
    chosen: Tensor
    chosen_logits: Tensor | None


class Passes:
    """Runs a model over batches where only some samples are learned from, as lean as possible (`_lean.py`)."""

    def __init__(self, model: nn.Module, forward: Forward | None = None) -> None:
        self._forward = forward or Lean(model)
        self._interact = samples_interact(model)
        self.forget()

    def forget(self) -> None:
        self._share = 0.5  # of samples chosen lately: what the next batch is expected to bring

    def everyone(self, batch: Tensor) -> Tensor:
        """Logits of the whole batch; with a graph where gradients are enabled."""
        if self._interact and len(batch) == 1:
            # Statistics of an image and its copy are those of the image, and exist where one pixel is left.
            return self._forward(batch.expand(2, *batch.shape[1:]))[:1]
        return self._forward(batch)

    def look(self, batch: Tensor, choose: Callable[[Tensor], Tensor], *, graph_for_all: bool = False) -> Look:
        """First pass: logits of all, and a graph of those that `choose` picks by their logits.

        The cheapest way for the share of samples that recent batches let expect.
        """
        joint = graph_for_all or self._interact or self._share > BREAK_EVEN
        with torch.set_grad_enabled(joint):
            logits = self.everyone(batch)
        chosen = choose(logits.detach())
        self._share = MEMORY * self._share + (1 - MEMORY) * len(chosen) / len(batch)
        if not len(chosen):
            return Look(logits.detach(), chosen, None)
        chosen_logits = logits[chosen] if joint else self._forward(batch[chosen])
        return Look(logits.detach(), chosen, chosen_logits)

    def look_again(
        self, batch: Tensor, chosen: Tensor, *, all_logits: bool, graph_for_all: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Second pass: the logits, and those of the chosen with a graph.

        Samples not chosen are computed only where `all_logits` asks for them, and then without a graph.
        """
        if graph_for_all or self._interact or len(chosen) == len(batch):
            logits = self.everyone(batch)
            return logits.detach(), logits[chosen]
        chosen_logits = self._forward(batch[chosen])
        if not all_logits:
            return chosen_logits.detach(), chosen_logits
        taken = torch.zeros(len(batch), dtype=torch.uint8, device=batch.device).index_fill_(0, chosen, 1)
        others = taken.argsort(stable=True)[: len(batch) - len(chosen)]  # unlike `nonzero`, without a wait for a GPU
        logits = chosen_logits.new_empty(len(batch), chosen_logits.shape[1])
        with torch.no_grad():
            logits[chosen] = chosen_logits
            logits[others] = self._forward(batch[others])
        return logits, chosen_logits
