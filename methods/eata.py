"""EATA: ETA with an anchor, so that adapting does not undo what the source model knows.

Each norm weight is held to its source value by its Fisher information: loss + fisher_weight * sum F (w -
w_source)^2. F comes from unlabelled source data before the stream starts (`prepare`): the squared gradient
of the cross-entropy with the model's own predictions, averaged over batches. It is the square of a batch's
mean gradient, as released, so its scale depends on the batch size of the source batches. The filters and
the step are ETA's.

Source and departures: see eta.py. The published source data are 2,000 clean ImageNet validation images, the
originals of some ImageNet-C images: a mild leak worth knowing about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.errors import UserError

from ._optim import Tensors, gradients
from ._prepared import fitting
from ._ranges import not_negative
from ._variants import extends
from .eta import Eta


class Eata(Eta):
    """ETA with its weights anchored to the source model by Fisher information."""

    adapts = "all norm layers, anchored to source"
    needs = ("source images",)
    needs_source = True
    name: ClassVar[str] = "eata"

    @extends(Eta.__init__)
    def __init__(self, model: nn.Module, *, fisher_weight: float = 2000.0, **settings: Any) -> None:
        super().__init__(model, **settings)
        not_negative(fisher_weight=fisher_weight)
        self.fisher_weight = fisher_weight
        self._fisher: list[Tensor] = []

    @torch.enable_grad()
    def prepare(self, source_batches: Iterable[Tensor], labels: Iterable[Tensor] | None = None) -> None:
        """Fisher information of the norm weights. From source, not from the stream: `reset` keeps it."""
        fisher = [torch.zeros_like(tensor) for tensor in self._sgd.tensors]
        count = 0
        for batch in source_batches:
            logits = self._passes.everyone(batch)
            grads = gradients(F.cross_entropy(logits, logits.argmax(1)), self._sgd.tensors)
            torch._foreach_addcmul_(fisher, grads, grads)
            count += 1
        if not count:
            raise UserError(f"{self.name}: prepare() got no source batches to take Fisher information from")
        self._fisher = [total / count for total in fisher]

    def prepared_state(self) -> dict[str, Tensor]:
        return dict(zip(self._adapted, self._fisher, strict=True)) if self._fisher else {}

    def load_prepared_state(self, state: Mapping[str, Tensor]) -> None:
        shapes = {name: tensor.shape for name, tensor in self._adapted.items()}
        self._fisher = list(fitting(state, shapes, method=self.name, like=self._sgd.tensors[0]).values())

    def adapt(self, batch: Tensor) -> Tensor:
        if self.fisher_weight and not self._fisher:
            raise UserError(
                f"{self.name}: adapt() came before prepare(source_batches); give source data, or set fisher_weight 0"
            )
        return super().adapt(batch)

    @torch.no_grad()
    def _anchored(self, grads: Tensors) -> Tensors:
        """Add the gradient of the anchor, 2 * fisher_weight * F * (w - w_source)."""
        if not self.fisher_weight:
            return grads
        drift = torch._foreach_sub(self._sgd.tensors, list(self.snapshot.values()))
        pull = torch._foreach_mul(drift, self._fisher)
        return torch._foreach_add(grads, pull, alpha=2 * self.fisher_weight)
