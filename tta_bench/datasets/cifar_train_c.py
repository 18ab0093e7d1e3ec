"""Train photographs of CIFAR under one corruption per task, corrupted on demand.

For choosing settings: tables score test photographs, so they never show one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from tta_bench.checked.annotations import Severity
from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.data.images import ArrayImages
from tta_bench.data.seeding import permutation
from tta_bench.datasets.array_files import ArrayKind, viewed
from tta_bench.datasets.cifar import FOLDERS, CleanImages, clean, files, is_there
from tta_bench.datasets.on_disk import SOURCE_IMAGES

Length = Annotated[int, Meta(ge=1, le=48_000, title="1 to 48,000", description="How many photographs a task has.")]


class CifarTrainC(ArrayKind):
    """The train photographs of CIFAR-10 or CIFAR-100, with CIFAR-C's strengths; the same ones for each corruption."""

    layout = "cifar-<10-batches-py|100-python>"

    def __init__(self, root: Path | None, *, classes: Literal[10, 100], severity: Severity, images: Length) -> None:
        super().__init__(root)
        self.num_classes, self.severity, self.images = classes, severity, images
        self.layout = FOLDERS[classes]

    def at_severity(self, severity: int) -> CifarTrainC:
        return self._with(severity=severity)

    def tasks(self) -> Sequence[str]:
        return (*CORRUPTIONS, *HELD_OUT)

    def downloads(self, task: str | None = None) -> Sequence[str]:
        return (f"cifar{self.num_classes}",)

    def seems_there(self, task: str) -> bool:
        return is_there(self.data_root(), self.num_classes)

    def places(self, task: str) -> Sequence[Path]:
        return files(self.data_root() / self.layout, self.num_classes, "train")

    source_places = places

    def open(self, task: str) -> ArrayImages:
        pixels, labels, ids = _corrupted(self.data_root(), self.num_classes, task, self.severity, self.images)
        return ArrayImages(viewed(pixels, self.transform), labels, ids)

    def originals(self, task: str) -> CleanImages:
        return _photographs(self._train(), self.images)

    def source_images(self, task: str | None = None) -> CleanImages:
        """2,000 clean train images, none of them in a task."""
        train = self._train()
        return train.at(np.sort(_order(train)[:SOURCE_IMAGES]))

    def _train(self) -> CleanImages:
        return clean(self.data_root(), self.num_classes, "train", self.transform)


def _order(train: CleanImages) -> NDArray[np.int64]:
    """Clean source images first, as `cifar-c` has them, then those that are corrupted."""
    return permutation(len(train.ids), "cifar", train.classes, "source")


def _photographs(train: CleanImages, count: int) -> CleanImages:
    return train.at(_order(train)[SOURCE_IMAGES : SOURCE_IMAGES + count])


@lru_cache(maxsize=8)
def _corrupted(
    root: Path, classes: int, task: str, severity: int, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Pixels as [N, 32, 32, 3], labels and ids."""
    from tta_bench.corruptions import corrupt_many  # needs Pillow, which listing suites does not

    shown = _photographs(clean(root, classes, "train"), count)
    pixels = shown.read(np.arange(count)).transpose(0, 2, 3, 1)
    made = corrupt_many(pixels, task, severity, image_ids=list(shown.ids), scale="small")
    return made, shown.labels, [f"{task}/{severity}/{name}" for name in shown.ids]
