"""LastNorm: minimise the entropy of the answers by scale and shift of the model's last norm layer alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tta_bench import Method
from tta_bench.errors import UserError

NORMS = (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)


class LastNorm(Method):
    """One step of gradient descent with momentum on each batch. Settings are the keyword arguments."""

    paper = "none, an example"
    adapts = "last norm layer"
    kind = "norms"
    passes = "1 forward, 1 backward"

    def __init__(
        self, model: nn.Module, *, num_classes: int, batch_size: int = 64, lr: float = 0.01, momentum: float = 0.9
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        named = [(name, module) for name, module in model.named_modules() if isinstance(module, NORMS)]
        if not named:
            raise UserError(f"last-norm adapts a norm layer, and {type(model).__name__} has none")
        name, norm = named[-1]
        model.eval().requires_grad_(False)
        norm.requires_grad_(True)
        self.adapted = {f"{name}.{key}": parameter for key, parameter in norm.named_parameters()}
        self.lr, self.momentum = lr, momentum
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self.adapted)

    def forget(self) -> None:
        """Everything that is learned from the stream but not in `adapted_parameters` is dropped here."""
        self.velocity = {name: torch.zeros_like(tensor) for name, tensor in self.adapted.items()}

    def adapt(self, batch: Tensor) -> Tensor:
        with torch.enable_grad():
            logits: Tensor = self.model(batch)
            log_p = logits.log_softmax(1)
            entropy = -(log_p.exp() * log_p).sum(1).mean()
            gradients = torch.autograd.grad(entropy, list(self.adapted.values()))
        with torch.no_grad():
            for (name, tensor), gradient in zip(self.adapted.items(), gradients, strict=True):
                self.velocity[name].mul_(self.momentum).add_(gradient)
                tensor.sub_(self.lr * self.velocity[name])
        return logits.detach()
