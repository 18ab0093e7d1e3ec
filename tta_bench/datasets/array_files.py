"""Image sets in .npy files of 32-pixel images, and their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.datasets.files import Viewed
from tta_bench.datasets.on_disk import OnDisk
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError

PIXELS = 32


@dataclass(frozen=True, eq=False)
class ArrayFile(Viewed):
    """Some images of an array on disk; mapped in each call, so that it can be pickled and memory stays constant."""

    file: Path
    rows: NDArray[np.int64]  # the index of each image in the array
    ids: Sequence[str]
    labels: NDArray[np.int64]
    view: Transform | None

    @property
    def in_memory(self) -> bool:
        """True if there is nothing to decode or enlarge: worker processes would only copy bytes."""
        return self.view is None

    @property
    def files(self) -> list[Path]:
        """Every file that `read` may open."""
        return [self.file]

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        return viewed(map_images(self.file)[self.rows[indices]], self.view)

    def at(self, places: NDArray[np.int64]) -> ArrayFile:
        """The images at these positions, in this order."""
        ids = [self.ids[place] for place in places]
        return replace(self, rows=self.rows[places], ids=ids, labels=self.labels[places])


def viewed(pixels: NDArray[np.uint8], view: Transform | None) -> NDArray[np.uint8]:
    """Stored [N, H, W, 3] images as a model takes them: enlarged if there is a view, as [N, 3, H, W]."""
    if view is None:
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    from PIL import Image

    return np.stack([view(Image.fromarray(image)) for image in pixels])


class ArrayKind(OnDisk):
    """Data of 32-pixel images."""

    num_classes: int = 10
    size = PIXELS
    interpolation = "bicubic"

    @property
    def transform(self) -> Transform | None:
        """Enlarges images for a model with more than 32 input pixels."""
        if self.size == PIXELS:
            return None
        return Transform(self.size, self.size, interpolation=self.interpolation)


def load_labels(file: Path, classes: int) -> NDArray[np.int64]:
    """An array of labels; UserError if it is anything else."""
    labels: NDArray[Any] = _load(file)
    if not labels.size:
        raise UserError(f"{file} is empty: replace this file")
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= classes:
        raise UserError(f"{file}: expected a 1-D array of labels from 0 to {classes - 1}")
    return labels.astype(np.int64)


def map_images(file: Path) -> NDArray[np.uint8]:
    """An array of 32-pixel images, mapped; UserError if it is anything else."""
    images: NDArray[np.uint8] = _load(file)
    if images.dtype != np.uint8 or images.shape[1:] != (PIXELS, PIXELS, 3):
        raise UserError(f"{file}: expected bytes of shape (N, 32, 32, 3), got {images.dtype} {images.shape}")
    return images


def _load(file: Path) -> NDArray[Any]:
    try:
        content: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise UserError(f"{file} is missing") from error
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{file}: not a readable array ({error})") from error
    return content
