"""Labelled source images that a method goes on looking at while it adapts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Replay:
    """Source batches in the order in which they came, over and over; each turn is asked for by its number.

    Images are kept as bytes if that loses nothing, a quarter of the memory.
    """

    def __init__(self, images: Tensor, labels: Tensor, sizes: Tensor) -> None:
        """All images and labels in a row, and how many each batch has."""
        self._images, self._labels, self._sizes = images, labels, sizes
        self._batches = list(zip(images.split(sizes.tolist()), labels.split(sizes.tolist()), strict=True))

    @classmethod
    def of(cls, images: Sequence[Tensor], labels: Sequence[Tensor]) -> Replay:
        """From batches as `kept` returns them, and their labels."""
        if len({batch.dtype for batch in images}) > 1:
            images = [floats(batch) for batch in images]
        return cls(torch.cat(list(images)), torch.cat(list(labels)), torch.tensor([len(batch) for batch in images]))

    def __len__(self) -> int:
        return len(self._batches)

    def turn(self, number: int) -> tuple[Tensor, Tensor]:
        """Images and labels of a turn; after the last batch the first one follows."""
        images, labels = self._batches[number % len(self._batches)]
        return floats(images), labels

    def tensors(self) -> dict[str, Tensor]:
        return {"source_images": self._images, "source_labels": self._labels, "source_sizes": self._sizes}


def kept(images: Tensor) -> Tensor:
    """A copy of images in [0, 1]: bytes if they were made of bytes, else floats."""
    as_bytes = (images * 255).round().clamp(0, 255).byte()
    return as_bytes if torch.equal(floats(as_bytes), images) else images.clone()


def floats(images: Tensor) -> Tensor:
    return images.float().div(255) if images.dtype == torch.uint8 else images
