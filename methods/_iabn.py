"""Instance-aware batch normalisation (NOTE): correct the statistics of a layer only where an image really differs.

Mean and variance of one image's map vary by chance even if the image comes from the layer's distribution. IABN measures
that by the standard error; what an image deviates beyond `k` standard errors is added to the layer's own mean and
variance. A map of one pixel is normalised by the layer's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from ._batchnorm import replaced, scaled_and_shifted


class InstanceAware:
    """Running statistics of the BatchNorm layers of a model, which start as those of the source data."""

    def __init__(self, norms: Sequence[nn.BatchNorm2d], *, k: float, momentum: float) -> None:
        self._layers = {norm: Layer(norm, k=k, momentum=momentum) for norm in norms}

    @contextmanager
    def in_place(self, *, of_the_batch: bool = False) -> Iterator[None]:
        """Within the block the layers are instance-aware, around running statistics, or around the batch's.

        The running ones follow each batch whose own are used.
        """
        with replaced({norm: partial(layer, of_the_batch=of_the_batch) for norm, layer in self._layers.items()}):
            yield


class Layer:
    """One BatchNorm layer as IABN."""

    def __init__(self, norm: nn.BatchNorm2d, *, k: float, momentum: float) -> None:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        self._norm, self._k, self._momentum = norm, k, momentum
        self._mean, self._var = norm.running_mean, norm.running_var

    def __call__(self, maps: Tensor, *, of_the_batch: bool) -> Tensor:
        mean, var = self._follow(maps) if of_the_batch else (self._mean, self._var)
        pixels = maps[0, 0].numel()
        if pixels > 1:
            mean, var = corrected(maps, mean, var, eps=self._norm.eps, k=self._k)
        return scaled_and_shifted(self._norm, maps, mean, var)

    def _follow(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and unbiased variance of the batch; a single value has no variance, and the running one is used."""
        single = maps.numel() == maps.shape[1]
        mean = maps.mean((0, 2, 3))
        var = self._var if single else maps.var((0, 2, 3))
        self._mean = torch.lerp(self._mean, mean.detach(), self._momentum)
        self._var = torch.lerp(self._var, var.detach(), self._momentum)
        return mean, var


def corrected(maps: Tensor, mean: Tensor, var: Tensor, *, eps: float, k: float) -> tuple[Tensor, Tensor]:
    """Mean and variance [B, C] for each image: the layer's, moved by what exceeds `k` standard errors."""
    pixels = maps[0, 0].numel()
    own_var, own_mean = torch.var_mean(maps, (2, 3))
    mean_error = ((var + eps) / pixels).sqrt()
    var_error = (var + eps) * math.sqrt(2 / (pixels - 1))
    mean = mean + shrunk(own_mean - mean, k * mean_error)
    return mean, (var + shrunk(own_var - var, k * var_error)).clamp(min=0)


def shrunk(values: Tensor, by: Tensor) -> Tensor:
    """Values moved towards zero by an amount, and no further than to zero."""
    return values - values.clamp(-by, by)
