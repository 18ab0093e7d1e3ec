"""Sets of images: what a task reads from. Knows no order and no method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class ImageSet(Protocol):
    """Labelled images that can be read in any order."""

    @property
    def ids(self) -> Sequence[str]:
        """A name for each image that is the same on every machine."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each image."""

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The images at these positions as [N, 3, H, W]."""


class ArrayImages:
    """An image set that is held in memory."""

    def __init__(self, images: NDArray[np.uint8], labels: NDArray[np.int64], ids: Sequence[str]) -> None:
        self._images = images
        self.labels = labels
        self.ids = ids

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        return self._images[indices]
