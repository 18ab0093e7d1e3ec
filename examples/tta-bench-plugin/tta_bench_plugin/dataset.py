"""Shapes: discs, squares, crosses and rings of 32 pixels, and three ways to shift them. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from tta_bench.data.images import ArrayImages
from tta_bench.datasets import Dataset

PIXELS = 32
KINDS = ("disc", "square", "cross", "ring")
SHIFTS = ("noise", "dim", "tint")


class Shapes(Dataset):
    """Images are drawn from fixed seeds, so there is nothing to download. Options are the keyword arguments."""

    num_classes = len(KINDS)

    def __init__(
        self,
        root: Path | None,
        *,
        images: Annotated[int, Meta(ge=1, description="How many images a task has.")] = 256,
    ) -> None:
        self.images = images

    def tasks(self) -> Sequence[str]:
        return SHIFTS

    def open(self, task: str) -> ArrayImages:
        images, labels = draw(self.images, seed=1)
        return ArrayImages(shift(images, task), labels, [f"{task}/{i}" for i in range(len(labels))])

    def originals(self, task: str) -> ArrayImages:
        return _clean(self.images, seed=1)

    def source_images(self, task: str | None = None) -> ArrayImages:
        return _clean(self.images, seed=0)

    def places(self, task: str) -> Sequence[Path]:
        """In no file: while this module stays the same, so do the images."""
        return ()

    def source_places(self, task: str) -> Sequence[Path]:
        return ()


def draw(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Shapes of random place, size and colour on a random ground: [N, 3, 32, 32], and which shape each is."""
    rng = np.random.Generator(np.random.PCG64(seed))
    labels = np.arange(count) % len(KINDS)
    y, x = np.mgrid[:PIXELS, :PIXELS]
    images = np.empty((count, 3, PIXELS, PIXELS))
    for image, label in zip(images, labels, strict=True):
        across, down = x - rng.uniform(12, 20), y - rng.uniform(12, 20)
        size, far = rng.uniform(6, 10), np.hypot(across, down)
        inside = (
            far < size,
            np.maximum(abs(across), abs(down)) < size * 0.9,
            (np.minimum(abs(across), abs(down)) < size * 0.3) & (np.maximum(abs(across), abs(down)) < size),
            (far < size) & (far > size * 0.6),
        )[label]
        ground, colour = rng.uniform(0, 0.4, (3, 1, 1)), rng.uniform(0.6, 1, (3, 1, 1))
        image[:] = np.where(inside, colour, ground)
    return _bytes(images + rng.normal(0, 0.02, images.shape)), labels.astype(np.int64)


def shift(images: NDArray[np.uint8], task: str) -> NDArray[np.uint8]:
    """The same images under another light."""
    floats = images / 255
    if task == "noise":
        return _bytes(floats + np.random.Generator(np.random.PCG64(2)).normal(0, 0.35, floats.shape))
    if task == "dim":
        return _bytes(0.45 + 0.15 * floats)
    return _bytes(floats * np.array([1.0, 0.35, 0.1])[:, None, None])


def _clean(count: int, seed: int) -> ArrayImages:
    images, labels = draw(count, seed)
    return ArrayImages(images, labels, [f"clean-{seed}/{i}" for i in range(count)])


def _bytes(floats: NDArray[np.float64]) -> NDArray[np.uint8]:
    return (floats.clip(0, 1) * 255).round().astype(np.uint8)
