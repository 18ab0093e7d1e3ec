"""CIFAR-10-C and CIFAR-100-C in their published form: one array of 50,000 images per corruption."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from tta_bench.checked import parse
from tta_bench.checked.annotations import Count, Partial, Severity
from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.data.seeding import permutation
from tta_bench.datasets.array_files import ArrayFile, ArrayKind, load_labels, map_images
from tta_bench.datasets.cifar import FOLDERS, CleanImages
from tta_bench.datasets.cifar import clean as clean_split
from tta_bench.datasets.cifar import files as split_files
from tta_bench.datasets.cifar import is_there as has_archive
from tta_bench.datasets.listing import is_file
from tta_bench.datasets.on_disk import MADE, SOURCE_IMAGES
from tta_bench.errors import UserError
from tta_bench.files import read_whole

PUBLISHED = 10_000  # images per severity, in consecutive blocks
Images = Annotated[Count | None, Meta(description="Use so many of a task's images, always the same; none: all.")]


class CifarC(ArrayKind):
    """`<corruption>.npy` and `labels.npy` in DATA_ROOT/CIFAR-10-C (or -100-C), or in DATA_ROOT itself."""

    layout = "CIFAR-<10|100>-C/<corruption>.npy and labels.npy"
    bibtex = """@inproceedings{hendrycks2019corruptions,
        title = {Benchmarking Neural Network Robustness to Common Corruptions and Perturbations},
        author = {Hendrycks, Dan and Dietterich, Thomas},
        booktitle = {International Conference on Learning Representations},
        year = {2019},
    }
    @techreport{krizhevsky2009cifar,
        title = {Learning Multiple Layers of Features from Tiny Images},
        author = {Krizhevsky, Alex},
        institution = {University of Toronto},
        year = {2009},
    }"""

    def __init__(
        self,
        root: Path | None,
        *,
        classes: Literal[10, 100],
        severity: Severity,
        images: Images = None,
        allow_partial: Partial = False,
    ) -> None:
        super().__init__(root, allow_partial=allow_partial)
        self.num_classes, self.severity, self.images = classes, severity, images
        self.layout = f"CIFAR-{classes}-C/<corruption>.npy and labels.npy"

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
        own = [self._home() / "original.npy", self._home() / "labels.npy"]
        return split_files(self._authors(), self.num_classes, "train") if self._has_authors() else own

    def open(self, task: str) -> ArrayFile:
        file = self._home() / f"{task}.npy"
        labels, count = self._labels(), len(map_images(file))
        made = severities_made(self._home()) or (1, 2, 3, 4, 5)
        if self.severity not in made:
            raise UserError(
                f"{file}: has severities {', '.join(map(str, made))}, not {self.severity}: "
                f"make it with `make-corrupted --cifar {self.num_classes} --severities {self.severity}` elsewhere"
            )
        block = len(labels) // 5
        if len(labels) % 5 or count != block * len(made):
            expected = f"{len(made)} x {block:,}, as many as labels.npy says"
            raise UserError(f"{file}: {count:,} images, expected {expected}")
        self.refuse_partial(
            file, None if block == PUBLISHED else f"{block:,} images a severity, expected {PUBLISHED:,}"
        )
        start = made.index(self.severity) * block
        ids = [f"{task}/{self.severity}/{i:05d}" for i in range(block)]
        whole = ArrayFile(file, np.arange(start, start + block), ids, labels[:block], self.transform)
        return whole.at(self._chosen(block))

    def _chosen(self, count: int) -> NDArray[np.int64]:
        """The positions of the suite's images: the same photographs for all corruptions and severities."""
        if self.images is not None and self.images > count:
            raise UserError(f"data: images is {self.images:,}, but a task has only {count:,} images")
        return np.sort(permutation(count, "cifar", self.num_classes, "images")[: self.images])

    def source_images(self, task: str | None = None) -> ArrayFile | CleanImages:
        """2,000 clean train images, if the authors' CIFAR is in the data root; else 2,000 of the test images."""
        if self._has_authors():
            train = clean_split(self.data_root(), self.num_classes, "train", self.transform)
            return train.at(self._sample(len(train.ids)))
        images = self._clean("clean source images are needed (a method prepares on them)")
        return images.at(self._sample(len(images.ids)))

    def _sample(self, count: int) -> NDArray[np.int64]:
        return np.sort(permutation(count, "cifar", self.num_classes, "source")[:SOURCE_IMAGES])

    def originals(self, task: str) -> ArrayFile | CleanImages:
        """The clean test images: every severity of a corruption was made from them, in the same order."""
        if not is_file(self._home() / "original.npy") and self._has_authors():
            test = clean_split(self.data_root(), self.num_classes, "test", self.transform)
            if np.array_equal(test.labels, self._labels()[: len(test.labels)]):
                return test.at(self._chosen(len(test.ids)))
        clean = self._clean("no originals")
        return clean.at(self._chosen(len(clean.ids)))

    def made_by(self) -> str:
        return "make-corrupted" if is_file(self._home() / MADE) else ""

    def _authors(self) -> Path:
        return self.data_root() / FOLDERS[self.num_classes]

    def _has_authors(self) -> bool:
        return has_archive(self.data_root(), self.num_classes)

    def _clean(self, need: str) -> ArrayFile:
        """All clean test images as an array; the published download has none, so the user provides them."""
        file = self._home() / "original.npy"
        if not is_file(file):
            raise UserError(
                f"{need}: run `tta-bench download cifar{self.num_classes}`, or put the original test images, in the "
                f"order of labels.npy, as bytes of shape (10000, 32, 32, 3) into {file}"
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


def severities_made(home: Path) -> tuple[int, ...] | None:
    """The severities that `make-corrupted --cifar` has written into a folder; None for the published files."""
    note = home / MADE
    if not is_file(note):
        return None
    found = parse.from_json(read_whole(note), str(note))
    made = found.get("severities") if isinstance(found, dict) else None
    if not isinstance(made, list) or not made or not set(made) <= {1, 2, 3, 4, 5}:
        raise UserError(f"{note}: damaged, expected the severities that were made: make the folder again")
    return tuple(made)
