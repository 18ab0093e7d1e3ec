"""Gradients and steps: plain SGD, and SGD on the gradient found at a nearby, worse point (SAM)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor

from ._ranges import not_negative

Tensors = list[Tensor] | tuple[Tensor, ...]


def gradients(loss: Tensor | None, tensors: Tensors, *, keep_graph: bool = False) -> tuple[Tensor, ...]:
    """Gradients of a loss; zeros where it does not depend on a tensor, or where no sample made a loss.

    Zeros rather than nothing: momentum goes on moving the weights, as in the released code.
    """
    if loss is None:
        return tuple(torch.zeros_like(tensor) for tensor in tensors)
    return torch.autograd.grad(loss, tensors, retain_graph=keep_graph, allow_unused=True, materialize_grads=True)


def clipped(grads: Tensors, max_norm: float) -> Tensors:
    """Gradients scaled down to a total length of `max_norm` where they are longer, as torch's clip_grad_norm_ does."""
    length = torch.stack(torch._foreach_norm(grads)).norm()
    return torch._foreach_mul(grads, (max_norm / (length + 1e-6)).clamp(max=1.0))


class Descent:
    """Steps of a torch optimiser on gradients given by hand."""

    def __init__(self, tensors: Tensors, optimizer: torch.optim.Optimizer) -> None:
        self.tensors = tensors
        self._optimizer = optimizer

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """One step; a tensor without a gradient stays, and so do its moments."""
        for tensor, grad in zip(self.tensors, grads, strict=True):
            tensor.grad = grad
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def set_lr(self, lr: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = lr

    def moments(self) -> dict[str, Tensor]:
        """Copies of what the optimiser remembers of each tensor, as `exp_avg.0` of the first one."""
        return {
            f"{key}.{i}": value.clone()
            for i, tensor in enumerate(self.tensors)
            for key, value in self._optimizer.state.get(tensor, {}).items()
            if isinstance(value, Tensor)
        }

    def load_moments(self, moments: Mapping[str, Tensor]) -> None:
        for name, value in moments.items():
            key, _, i = name.rpartition(".")
            # torch counts steps on the CPU
            self._optimizer.state[self.tensors[int(i)]][key] = value.cpu().clone() if key == "step" else value.clone()


class Sgd(Descent):
    """Gradient descent with momentum."""

    def __init__(
        self, tensors: Tensors, *, lr: float, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
    ) -> None:
        not_negative(lr=lr, weight_decay=weight_decay)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}, expected 0 to below 1")
        sgd = torch.optim.SGD(
            tensors, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, foreach=True
        )
        super().__init__(tensors, sgd)


class Adam(Descent):
    """Steps scaled by moving averages of the gradient and its square."""

    def __init__(self, tensors: Tensors, *, lr: float, weight_decay: float = 0.0) -> None:
        not_negative(lr=lr, weight_decay=weight_decay)
        super().__init__(tensors, torch.optim.Adam(tensors, lr=lr, weight_decay=weight_decay, foreach=True))


class AdamW(Descent):
    """Steps scaled by moving averages of the gradient and its square, with weight decay apart from both."""

    def __init__(self, tensors: Tensors, *, lr: float, weight_decay: float) -> None:
        not_negative(lr=lr, weight_decay=weight_decay)
        super().__init__(tensors, torch.optim.AdamW(tensors, lr=lr, weight_decay=weight_decay, foreach=True))


@contextmanager
def uphill(tensors: Tensors, grads: Tensors, rho: float) -> Iterator[None]:
    """Within the block the tensors stand `rho` up the slope; afterwards they are exactly as before."""
    before = [tensor.detach().clone() for tensor in tensors]
    with torch.no_grad():
        length = torch.stack(torch._foreach_norm(grads)).norm()
        torch._foreach_add_(tensors, torch._foreach_mul(grads, rho / (length + 1e-12)))
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(tensors, before)


class Sam(Sgd):
    """Sharpness-aware minimisation (Foret et al. 2021): step by the gradient found `rho` up the slope."""

    def __init__(self, tensors: Tensors, *, lr: float, momentum: float, rho: float) -> None:
        super().__init__(tensors, lr=lr, momentum=momentum)
        self.rho = rho

    def perturbed(self, grads: Tensors) -> AbstractContextManager[None]:
        """A block in which the weights stand `rho` up the slope."""
        return uphill(self.tensors, grads, self.rho)
