"""T3A's supports: which features stand for a class. All keep `sums` [C, d], the sum of each class's supports.

A support is a unit vector with a label and the entropy of its prediction; one of low entropy is trusted more.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._head import class_sums
from ._host import sent


class Supports(NamedTuple):
    units: Tensor  # [N, d]
    labels: Tensor  # [N]
    entropies: Tensor  # [N]


class Everything:
    """Keeps all supports, and so needs none of them: their sums are enough."""

    def __init__(self, warm_up: Supports, classes: int) -> None:
        self.sums = class_sums(warm_up.units, warm_up.labels, classes)

    def add(self, new: Supports) -> None:
        self.sums += class_sums(new.units, new.labels, len(self.sums))


class Surest:
    """Keeps the `k` supports of lowest entropy for each class; the others are forgotten.

    They live in slots [C, slots, d], with entropy infinity where a slot is empty. There are as many slots as the
    fullest class needs, `k` at most; a batch only moves those of the classes that it predicts. How many stay of each
    class depends on labels alone, and so the host reads nothing else.
    """

    def __init__(self, warm_up: Supports, classes: int, k: int) -> None:
        self.k = k
        width = warm_up.units.shape[1]
        self.sums = warm_up.units.new_zeros(classes, width)
        self._units = warm_up.units.new_zeros(classes, 0, width)
        self._entropies = warm_up.entropies.new_zeros(classes, 0)
        self._used = torch.zeros(classes, dtype=torch.int64)  # slots of each class, on the host
        self.add(warm_up)

    def add(self, new: Supports) -> None:
        found, row, counts = new.labels.cpu().unique(return_inverse=True, return_counts=True)
        wanted = self._used[found] + counts
        self._make_room(int(wanted.max()))
        slots = self._entropies.shape[1]
        self._used[found] = wanted.clamp(max=slots)
        # The old supports of these classes and the new ones, by class and then by entropy; the first ones stay.
        rows = torch.cat([torch.arange(len(found)).repeat_interleave(slots), row])
        starts = (counts + slots).cumsum(0) - (counts + slots)
        first = (starts[:, None] + torch.arange(slots)).flatten()
        classes, rows, first = (sent(indices, new.units) for indices in (found, rows, first))
        entropies = torch.cat([self._entropies[classes].flatten(), new.entropies])
        units = torch.cat([self._units[classes].flatten(0, 1), new.units])
        order = entropies.argsort(stable=True)
        order = order[rows[order].argsort(stable=True)][first]
        self._entropies[classes] = entropies[order].view(-1, slots)
        self._units[classes] = units[order].view(len(found), slots, -1)
        self.sums[classes] = self._units[classes].sum(1)

    def _make_room(self, wanted: int) -> None:
        classes, slots = self._entropies.shape
        more = min(self.k, max(wanted, 2 * slots)) - slots
        if wanted > slots and more > 0:
            self._units = torch.cat([self._units, self._units.new_zeros(classes, more, self._units.shape[2])], dim=1)
            self._entropies = torch.cat([self._entropies, self._entropies.new_full((classes, more), torch.inf)], dim=1)


class AllButTheLeastSure:
    """Drops the support of highest entropy from every class with every batch: an accident of the released code.

    The others all stay, so this grows with the stream: by up to one feature per image.
    """

    def __init__(self, warm_up: Supports, classes: int) -> None:
        self.kept = warm_up
        self.sums = class_sums(warm_up.units, warm_up.labels, classes)

    def add(self, new: Supports) -> None:
        units, labels, entropies = (torch.cat(pair) for pair in zip(self.kept, new, strict=True))
        order = entropies.argsort(stable=True)
        order = order[labels[order].argsort(stable=True)]
        stays = torch.zeros_like(order, dtype=torch.bool)
        stays[:-1] = labels[order[:-1]] == labels[order[1:]]  # one less sure of the same class follows
        order = order[stays]
        self.kept = Supports(units[order], labels[order], entropies[order])
        self.sums = class_sums(self.kept.units, self.kept.labels, len(self.sums))
