"""A memory of images by predicted class, for methods that learn from kept images instead of from the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Pick = Callable[[int], int]


class Memory(Generic[Item]):
    """At most `size` items in lists by class, the oldest first. What an item holds is the method's choice."""

    def __init__(self, size: int, num_classes: int) -> None:
        self.size = size
        self.classes: list[list[Item]] = [[] for _ in range(num_classes)]

    def __len__(self) -> int:
        return sum(map(len, self.classes))

    @property
    def is_full(self) -> bool:
        return len(self) >= self.size

    def items(self) -> list[Item]:
        """Class by class, in each class the oldest first."""
        return [item for items in self.classes for item in items]

    def largest(self) -> list[int]:
        """The classes with the most items, ascending."""
        most = max(map(len, self.classes))
        return [label for label, items in enumerate(self.classes) if len(items) == most]

    def make_room(self, label: int, pick: Pick) -> None:
        """Drop an item for a newcomer of class `label`, so that the largest classes shrink.

        A newcomer of one of them replaces an item of its own class, any other one an item of one of them.
        `pick(count)` chooses below `count`: first the class, where it is not the newcomer's own, then the item.
        """
        largest = self.largest()
        items = self.classes[label if label in largest else largest[pick(len(largest))]]
        del items[pick(len(items))]
