"""CIFAR-10-C and CIFAR-100-C in their published form: one array of 50,000 images per corruption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tta_bench.annotations import Partial, Severity
from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.data.seeding import permutation
from tta_bench.datasets.listing import is_file
from tta_bench.datasets.on_disk import SOURCE_IMAGES, OnDisk
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError

PIXELS = 32
PUBLISHED = 10_000  # images per severity, in consecutive blocks


@dataclass(frozen=True, eq=False)
class ArrayFile:
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

    @property
    def transform(self) -> str:
        """A description of what is done to the stored pixels."""
        return repr(self.view)

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        pixels = map_images(self.file)[self.rows[indices]]
        if self.view is None:
            return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        return np.stack([self.view(Image.fromarray(image)) for image in pixels])


class CifarC(OnDisk):
    """`<corruption>.npy` and `labels.npy` in DATA_ROOT/CIFAR-10-C (or -100-C), or in DATA_ROOT itself."""

    layout = "CIFAR-<10|100>-C/<corruption>.npy and labels.npy"
    num_classes: int = 10
    size = PIXELS
    interpolation = "bicubic"

    def __init__(
        self, root: Path | None, *, classes: Literal[10, 100], severity: Severity, allow_partial: Partial = False
    ) -> None:
        super().__init__(root, allow_partial=allow_partial)
        self.num_classes, self.severity = classes, severity
        self.layout = f"CIFAR-{classes}-C/<corruption>.npy and labels.npy"

    @property
    def transform(self) -> Transform | None:
        """Enlarges images for a model with more than 32 input pixels."""
        if self.size == PIXELS:
            return None
        return Transform(self.size, self.size, interpolation=self.interpolation)

    def at_severity(self, severity: int) -> CifarC:
        return self._with(severity=severity)

    def tasks(self) -> Sequence[str]:
        return (*CORRUPTIONS, *HELD_OUT)

    def published(self, task: str) -> tuple[int, int]:
        return self.num_classes, PUBLISHED

    def downloads(self, task: str | None = None) -> Sequence[str]:
        return (f"cifar{self.num_classes}-c",)

    def seems_there(self, task: str) -> bool:
        return is_file(self._home() / f"{task}.npy")

    def places(self, task: str) -> Sequence[Path]:
        return [self._home() / f"{task}.npy", self._home() / "labels.npy"]

    def source_places(self, task: str) -> Sequence[Path]:
        return [self._home() / "original.npy", self._home() / "labels.npy"]

    def open(self, task: str) -> ArrayFile:
        file = self._home() / f"{task}.npy"
        labels, count = self._labels(), len(map_images(file))
        if count != len(labels) or count % 5:
            raise UserError(f"{file}: {count:,} images, but labels.npy has {len(labels):,}: expected five equal blocks")
        self.refuse_partial(file, None if count == 5 * PUBLISHED else f"{count:,} images, expected {5 * PUBLISHED:,}")
        block = count // 5
        rows = np.arange((self.severity - 1) * block, self.severity * block)
        ids = [f"{task}/{self.severity}/{i:05d}" for i in range(block)]
        return ArrayFile(file, rows, ids, labels[rows], self.transform)

    def source_images(self, task: str | None = None) -> ArrayFile:
        """2,000 of the clean test images."""
        images = self._clean("clean source images are needed (a method prepares on them)")
        rows = np.sort(permutation(len(images.ids), "cifar", self.num_classes, "source")[:SOURCE_IMAGES])
        return replace(images, rows=rows, ids=[images.ids[row] for row in rows], labels=images.labels[rows])

    def originals(self, task: str) -> ArrayFile:
        """The clean test images: every severity of a corruption was made from them, in the same order."""
        return self._clean("no originals")

    def _clean(self, need: str) -> ArrayFile:
        """All clean test images; the published download has none, so the user provides them."""
        file = self._home() / "original.npy"
        if not is_file(file):
            raise UserError(
                f"{need}: put the original test images, in the order of labels.npy, as bytes of shape "
                f"(10000, 32, 32, 3) into {file}"
            )
        labels, count = self._labels(), len(map_images(file))
        if 5 * count != len(labels):
            raise UserError(f"{file}: {count:,} images, expected {len(labels) // 5:,}, as many as a severity has")
        ids = [f"original/{row:05d}" for row in range(count)]
        return ArrayFile(file, np.arange(count), ids, labels[:count], self.transform)

    def _labels(self) -> NDArray[np.int64]:
        return load_labels(self._home() / "labels.npy", self.num_classes)

    def _home(self) -> Path:
        return self.find((f"CIFAR-{self.num_classes}-C",), lambda folder: is_file(folder / "labels.npy"))


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
