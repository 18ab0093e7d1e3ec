"""Statistics of features over many batches, in one pass.

Sums are in float64 on the CPU, where rounding does not matter, and source images are read once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import zip_longest

import torch
from torch import Tensor

from tta_bench.errors import UserError


class Moments:
    """Mean and central moments, up to `order`, of features [N, d] that come in batches."""

    def __init__(self, order: int, width: int) -> None:
        self.count = 0
        self._powers = torch.zeros(order, width, dtype=torch.float64)

    def add(self, features: Tensor) -> None:
        features = features.cpu().double()
        self.count += len(features)
        for j, total in enumerate(self._powers, start=1):
            total += features.pow(j).sum(0)

    def central(self) -> Tensor:
        """The mean, then the central moments from the second on: [order, d]."""
        raw = [torch.ones_like(self._powers[0]), *(self._powers / self.count)]
        mean = raw[1]
        moments = [mean]
        for j in range(2, len(raw)):
            parts = [math.comb(j, k) * raw[k] * (-mean).pow(j - k) for k in range(j + 1)]
            moments.append(torch.stack(parts).sum(0))
        return torch.stack(moments)

    def std(self) -> Tensor:
        """The unbiased standard deviation [d]."""
        variance = self.central()[1] * self.count / (self.count - 1)
        return variance.clamp(min=0).sqrt()


class ClassMeans:
    """The mean of the features of each class, and how many there were."""

    def __init__(self, classes: int, width: int) -> None:
        self._sums = torch.zeros(classes, width, dtype=torch.float64)
        self.counts = torch.zeros(classes, dtype=torch.int64)

    def add(self, features: Tensor, labels: Tensor) -> None:
        labels = labels.cpu()
        self._sums.index_add_(0, labels, features.cpu().double())
        self.counts += labels.bincount(minlength=len(self.counts))

    def means(self) -> Tensor:
        """[C, d]; zero for a class that did not occur."""
        return self._sums / self.counts.clamp(min=1)[:, None]


def labelled(
    batches: Iterable[Tensor], labels: Iterable[Tensor] | None, num_classes: int, *, method: str
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Each batch with its labels, or with None where there are none; labels that do not fit are a UserError."""
    if labels is None:
        yield from ((batch, None) for batch in batches)
        return
    for i, (batch, given) in enumerate(zip_longest(batches, labels)):
        if batch is None or given is None:
            lacking = "batches" if batch is None else "labels"
            raise UserError(f"{method}: prepare() got {lacking} for {i} only; expected one label tensor per batch")
        if given.shape != batch.shape[:1]:
            raise UserError(
                f"{method}: source batch {i} has {len(batch)} images and labels of shape {tuple(given.shape)}"
            )
        if len(given) and not 0 <= int(given.min()) <= int(given.max()) < num_classes:
            raise UserError(f"{method}: source batch {i} has labels outside of 0 to {num_classes - 1}")
        yield batch, given
