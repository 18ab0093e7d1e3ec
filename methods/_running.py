"""BatchNorm layers in a model that trains now and then: batch statistics then, and running ones that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ._batchnorm import put


class RunningStatistics:
    """The BatchNorm layers of a model in evaluation mode; a model without any is left as it is."""

    def __init__(self, model: nn.Module) -> None:
        found = {name: module for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)}
        self._norms = {name: norm for name, norm in found.items() if norm.running_mean is not None}
        for norm in self._norms.values():
            norm.num_batches_tracked = None  # a count that nobody reads

    @property
    def there(self) -> bool:
        return bool(self._norms)

    def tensors(self) -> dict[str, Tensor]:
        """Running means and variances, live, by the model's own names."""
        return {
            f"{name}.{leaf}": getattr(norm, leaf)
            for name, norm in self._norms.items()
            for leaf in ("running_mean", "running_var")
        }

    @contextmanager
    def of_the_batch(self, *, follow: bool) -> Iterator[None]:
        """Within the block the layers normalise by the batch; the running statistics follow it, or stay."""
        for norm in self._norms.values():
            norm.training, norm.track_running_stats = True, follow
        try:
            yield
        finally:
            for norm in self._norms.values():
                norm.training, norm.track_running_stats = False, True


class OwnStatistics:
    """BatchNorm statistics that a method keeps for itself and lends to the layers for a pass.

    They begin as the source's, which the model has again after each pass: two sets may take turns in one model.
    """

    def __init__(self, model: nn.Module) -> None:
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        self._source = [(norm, norm.running_mean, norm.running_var) for norm in norms if norm.running_mean is not None]
        for norm, *_ in self._source:
            norm.num_batches_tracked = None  # a count that nobody reads
        self.forget()

    @property
    def there(self) -> bool:
        return bool(self._source)

    def forget(self) -> None:
        self._own = [(norm, _copy(mean), _copy(var)) for norm, mean, var in self._source]

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Within the block the layers normalise by these statistics."""
        put(self._own)
        try:
            yield
        finally:
            self._own = [(norm, norm.running_mean, norm.running_var) for norm, *_ in self._source]
            put(self._source)

    @contextmanager
    def following(self, momentum: float) -> Iterator[None]:
        """Within the block the layers normalise by the batch, and these statistics follow it by `momentum`.

        A layer that sees one value per channel (one image, one pixel), which has no variance, normalises by these.
        """
        own = [norm.momentum for norm, *_ in self._source]
        with self.lent(), self._before_each_layer(_train_on_several):
            for norm, *_ in self._source:
                norm.momentum = momentum
            try:
                yield
            finally:
                for (norm, *_), before in zip(self._source, own, strict=True):
                    norm.training, norm.momentum = False, before

    @contextmanager
    def mixing(self, share: float) -> Iterator[None]:
        """Within the block the batch joins these statistics by `share`, then the layers normalise by them.

        Gradients flow through the part of the batch. Its variance is the biased one.
        """
        with self.lent(), self._before_each_layer(partial(_mix, share)):
            yield

    @contextmanager
    def _before_each_layer(self, hook: Callable[[Any, tuple[Any, ...]], Any]) -> Iterator[None]:
        hooks = [norm.register_forward_pre_hook(hook) for norm, *_ in self._source]
        try:
            yield
        finally:
            for handle in hooks:
                handle.remove()


def _copy(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.clone()


def _train_on_several(norm: Any, args: tuple[Any, ...]) -> None:
    norm.training = args[0].numel() > args[0].shape[1]


def _mix(share: float, norm: Any, args: tuple[Any, ...]) -> Tensor | None:
    values = args[0].float()
    mean = torch.lerp(norm.running_mean, values.mean((0, 2, 3)), share)
    var = torch.lerp(norm.running_var, values.var((0, 2, 3), correction=0), share)
    norm.running_mean, norm.running_var = mean.detach(), var.detach()
    if not mean.requires_grad:
        return None
    # The layer takes statistics as constants. The same values, but with the gradient that its normalisation lacks:
    scale = ((var.detach() + norm.eps) / (var + norm.eps)).sqrt()
    same: Tensor = (values - mean[:, None, None]) * scale[:, None, None] + mean.detach()[:, None, None]
    return same
