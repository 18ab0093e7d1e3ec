"""BatchNorm statistics that every class has an equal part in, however often it occurs (TRIBE).

Each layer keeps a mean and a variance per class. It normalises by the mean of the class means and by the mean of the
class variances plus the variance of the class means. A batch with labels moves the classes that occur in it: class k by
`rate` times the sum over its images, and by their mean where they are more than 1 / `rate`. A part `share` of each
move goes to all classes alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._batchnorm import replaced, scaled_and_shifted


class Labels(NamedTuple):
    """The classes of a batch. Which ones occur is read once for all layers: the host waits for a GPU to read it."""

    each: Tensor  # [B]
    present: Tensor  # classes
    member: Tensor  # [present classes, B]
    counts: Tensor  # [present classes, 1]

    @classmethod
    def of(cls, labels: Tensor) -> Labels:
        present, row, counts = labels.unique(return_inverse=True, return_counts=True)
        return cls(labels, present, F.one_hot(row, len(present)).T, counts[:, None])


class BalancedStatistics:
    """Class-wise statistics of the BatchNorm layers of a model; several may take turns in one model."""

    def __init__(self, norms: Sequence[nn.BatchNorm2d], *, classes: int, rate: float, share: float) -> None:
        self._layers = {norm: Layer(norm, classes=classes, rate=rate, share=share) for norm in norms}

    @contextmanager
    def in_place(self, labels: Labels | None = None) -> Iterator[None]:
        """Within the block the model normalises by these statistics; with labels they follow each batch first."""
        with replaced({norm: partial(layer, labels=labels) for norm, layer in self._layers.items()}):
            yield


class Layer:
    """The statistics of one BatchNorm layer; they start as those of the source data, for every class."""

    def __init__(self, norm: nn.BatchNorm2d, *, classes: int, rate: float, share: float) -> None:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        self._norm, self._rate, self._share = norm, rate, share
        self._mean, self._var = norm.running_mean, norm.running_var
        self._class_mean = self._mean.expand(classes, -1)
        self._class_var = self._var.expand(classes, -1)

    def __call__(self, maps: Tensor, labels: Labels | None) -> Tensor:
        mean, var = (self._mean, self._var) if labels is None else self._follow(maps, labels)
        return scaled_and_shifted(self._norm, maps, mean, var)

    def _follow(self, maps: Tensor, labels: Labels) -> tuple[Tensor, Tensor]:
        """Move the statistics by a batch; returns the layer's mean and variance, through which gradients flow."""
        present, member, count = labels.present, labels.member.to(maps), labels.counts.to(maps)
        rate = count.reciprocal().clamp(max=self._rate)
        within, mean = torch.var_mean(maps, (2, 3), correction=0)
        away = mean - self._class_mean[labels.each]
        step = rate * (member @ away)
        squares = rate * (member @ (within + away.square())) - step.square()
        keep = rate * count
        own, shared = 1 - self._share, self._share
        class_mean = self._class_mean.index_add(0, present, own * step) + shared * step.mean(0)
        class_var = self._class_var.index_add(0, present, own * (squares - keep * self._class_var[present]))
        class_var = class_var + shared * (squares.mean(0) - keep.mean() * class_var)
        mean, var = class_mean.mean(0), class_var.mean(0)
        if len(class_mean) > 1:
            var = var + class_mean.var(0)
        self._class_mean, self._class_var = class_mean.detach(), class_var.detach()
        self._mean, self._var = mean.detach(), var.detach()
        return mean, var
