"""The linear classifier of a model, and the features that enter it, from one forward pass."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.errors import UserError

from ._lean import Forward, Lean


class Head:
    """A model whose classifier's input is kept: `logits, features = head.look(batch)`.

    The hook lives as long as one forward, so the model stays as it is for everybody else. `lean` leaves out what no
    logit depends on (`_lean.py`); not for sequences that begin with other tokens than the class token.
    """

    def __init__(self, model: nn.Module, *, method: str, num_classes: int, lean: bool = True) -> None:
        self.linear = linear_classifier(model, method, num_classes)
        self._forward: Forward = Lean(model) if lean else model
        self._features: Tensor | None = None

    def __call__(self, batch: Tensor) -> Tensor:
        """Logits; the features wait for `take`."""
        self._features = None
        hook = self.linear.register_forward_pre_hook(self._keep)
        try:
            return self._forward(batch)
        finally:
            hook.remove()

    def take(self, count: int) -> Tensor:
        """The features [count, d] of the last forward; let go here, or their graph would outlive the step."""
        features, self._features = self._features, None
        assert features is not None, "a forward through the classifier comes first"
        return features[:count]

    def look(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        logits = self(batch)
        return logits, self.take(len(batch))

    def classify(self, features: Tensor) -> Tensor:
        """Logits of features that did not come from a forward of the model, or were changed since."""
        return F.linear(features, self.linear.weight, self.linear.bias)

    def _keep(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._features = args[0]


def linear_classifier(model: nn.Module, method: str, num_classes: int) -> nn.Linear:
    """The layer that makes the logits: what timm's `get_classifier` says, else the last linear layer."""
    asked = next((module for module in model.modules() if hasattr(module, "get_classifier")), None)
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    found: Any = asked.get_classifier() if asked is not None else linear[-1] if linear else None  # type: ignore[operator]
    if not isinstance(found, nn.Linear):
        kind = type(asked or model).__name__
        raise UserError(f"{method} needs the features that enter one linear classifier, and {kind} has none")
    if found.out_features != num_classes:
        raise UserError(f"{method}: the classifier makes {found.out_features} logits, expected {num_classes}")
    return found


def full_precision(like: Tensor) -> torch.autocast:
    """A block without autocast, for small products in which bf16 would swap near equals."""
    return torch.autocast(like.device.type, enabled=False)


def class_sums(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The sum of the features of each class: [classes, d].

    A product of matrices: on a GPU `index_add` adds in no fixed order, and a replay must be the same bit for bit.
    """
    with full_precision(features):
        return F.one_hot(labels, classes).T.to(features) @ features


def frozen(model: nn.Module) -> nn.Module:
    """The model in evaluation mode, without gradients."""
    return model.eval().requires_grad_(False)
