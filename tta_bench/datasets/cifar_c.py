"""CIFAR-10-C and CIFAR-100-C in their published form: one array of 50,000 images per corruption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tta_bench.checked.annotations import Partial, Severity
from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.data.seeding import permutation
from tta_bench.datasets.array_files import ArrayFile, ArrayKind, load_labels, map_images
from tta_bench.datasets.listing import is_file
from tta_bench.datasets.on_disk import SOURCE_IMAGES
from tta_bench.errors import UserError

PUBLISHED = 10_000  # images per severity, in consecutive blocks


class CifarC(ArrayKind):
    """`<corruption>.npy` and `labels.npy` in DATA_ROOT/CIFAR-10-C (or -100-C), or in DATA_ROOT itself."""

    layout = "CIFAR-<10|100>-C/<corruption>.npy and labels.npy"

    def __init__(
        self, root: Path | None, *, classes: Literal[10, 100], severity: Severity, allow_partial: Partial = False
    ) -> None:
        super().__init__(root, allow_partial=allow_partial)
        self.num_classes, self.severity = classes, severity
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
