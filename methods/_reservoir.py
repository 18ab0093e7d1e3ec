"""A memory of images balanced over predicted classes and, within a class, over time (NOTE's PBRS)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Reservoir:
    """At most `size` images. When it is full, the classes with the most images give way.

    A newcomer of another class replaces one of theirs. A newcomer of such a class replaces one of its own with the
    probability stored / seen, so that every image of the class seen so far is as likely to be kept as any other.
    """

    def __init__(self, size: int, *, pick: Callable[[int], int], draw: Callable[[], float]) -> None:
        self._size, self._pick, self._draw = size, pick, draw
        self._images: dict[int, list[Tensor]] = {}
        self._seen: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._images.values()))

    def add(self, image: Tensor, label: int) -> None:
        self._seen[label] = self._seen.get(label, 0) + 1
        own = self._images.setdefault(label, [])
        if len(self) < self._size or self._makes_room(label):
            own.append(image.clone())

    def _makes_room(self, label: int) -> bool:
        """Let an image go, or say that the newcomer has to."""
        most = max(map(len, self._images.values()))
        largest = sorted(known for known, images in self._images.items() if len(images) == most)
        if label not in largest:
            label = largest[self._pick(len(largest))]
        elif self._draw() > most / self._seen[label]:
            return False
        del self._images[label][self._pick(most)]
        return True

    def batch(self) -> Tensor:
        """All images, class by class, the oldest first."""
        return torch.stack([image for _, images in sorted(self._images.items()) for image in images])
