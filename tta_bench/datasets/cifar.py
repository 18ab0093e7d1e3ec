"""CIFAR-10 and CIFAR-100 as their authors publish them: pickled batches of 32-pixel photographs, train and test."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tta_bench.datasets.array_files import PIXELS, viewed
from tta_bench.datasets.files import Viewed
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError
from tta_bench.files import read_whole

Split = Literal["train", "test"]

FOLDERS = {10: "cifar-10-batches-py", 100: "cifar-100-python"}
FILES: dict[tuple[int, Split], tuple[str, ...]] = {
    (10, "train"): tuple(f"data_batch_{number}" for number in range(1, 6)),
    (10, "test"): ("test_batch",),
    (100, "train"): ("train",),
    (100, "test"): ("test",),
}
LABELS = {10: "labels", 100: "fine_labels"}
IMAGES: dict[Split, int] = {"train": 50_000, "test": 10_000}


@dataclass(frozen=True, eq=False)
class CleanImages(Viewed):
    """Some images of a split. Pixels are read once per process, so that this can be pickled."""

    folder: Path
    classes: int
    split: Split
    rows: NDArray[np.int64]
    ids: Sequence[str]
    labels: NDArray[np.int64]
    view: Transform | None = None

    @property
    def in_memory(self) -> bool:
        """True if there is nothing to enlarge: reader processes would only copy bytes."""
        return self.view is None

    @property
    def files(self) -> list[Path]:
        return files(self.folder, self.classes, self.split)

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        return viewed(_load(self.folder, self.classes, self.split)[0][self.rows[indices]], self.view)

    def at(self, places: NDArray[np.int64]) -> CleanImages:
        """The images at these positions, in this order."""
        ids = [self.ids[place] for place in places]
        return replace(self, rows=self.rows[places], ids=ids, labels=self.labels[places])


def is_there(root: Path, classes: int) -> bool:
    """Whether the authors' folder is below a data root."""
    return (root / FOLDERS[classes]).is_dir()


def clean(root: Path, classes: int, split: Split, view: Transform | None = None) -> CleanImages:
    """A split of CIFAR-10 or CIFAR-100 below a data root; UserError if it is missing, damaged or incomplete."""
    folder = root / FOLDERS[classes]
    if not folder.is_dir():
        raise UserError(f"{folder} is missing: run `tta-bench download cifar{classes}` (docs/photographs.md)")
    pixels, labels = _load(folder, classes, split)
    if len(pixels) != IMAGES[split]:
        raise UserError(f"{folder}: {len(pixels):,} {split} images, expected {IMAGES[split]:,}: download it again")
    ids = [f"{split}/{row:05d}" for row in range(len(pixels))]
    return CleanImages(folder, classes, split, np.arange(len(pixels)), ids, labels, view)


def files(folder: Path, classes: int, split: Split) -> list[Path]:
    return [folder / name for name in FILES[classes, split]]


@lru_cache(maxsize=2)
def _load(folder: Path, classes: int, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images as [N, 32, 32, 3] bytes, and their labels."""
    parts = [_batch(file, classes) for file in files(folder, classes, split)]
    pixels = np.concatenate([pixels for pixels, _ in parts]).reshape(-1, 3, PIXELS, PIXELS)
    return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), np.concatenate([labels for _, labels in parts])


def _batch(file: Path, classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    content = _unpickle(file)
    key = LABELS[classes]
    pixels, labels = content.get("data"), np.asarray(content.get(key, ()))
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (3 * PIXELS**2,):
        raise UserError(f"{file}: expected 'data' as rows of {3 * PIXELS**2:,} bytes: download it again")
    is_whole = labels.shape == (len(pixels),) and labels.dtype.kind == "i"
    if not is_whole or not len(labels) or labels.min() < 0 or labels.max() >= classes:
        raise UserError(f"{file}: expected '{key}' as a number from 0 to {classes - 1} per image: download it again")
    return pixels, labels.astype(np.int64)


class _ArraysOnly(pickle.Unpickler):
    """Reads dictionaries, lists and arrays: a pickle could otherwise run any code."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {"ndarray": np.ndarray, "dtype": np.dtype, "_reconstruct": np.zeros(1).__reduce__()[0]}
        if module.partition(".")[0] != "numpy" or name not in allowed:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return allowed[name]


def _unpickle(file: Path) -> dict[str, Any]:
    import io

    try:
        content = _ArraysOnly(io.BytesIO(read_whole(file)), encoding="latin1").load()
    except FileNotFoundError as error:
        raise UserError(f"{file} is missing: download it again") from error
    except Exception as error:  # a damaged pickle may raise anything
        raise UserError(f"{file}: not a batch of CIFAR ({error}): download it again") from error
    if not isinstance(content, dict):
        raise UserError(f"{file}: not a batch of CIFAR: download it again")
    return content
