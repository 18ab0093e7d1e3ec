"""CIFAR-10.1 and similar sets: one array of images and one of labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from tta_bench.checked.annotations import Count, Folder, Partial, Published, Text
from tta_bench.datasets.array_files import PIXELS, ArrayFile, load_labels, map_images
from tta_bench.datasets.listing import is_file
from tta_bench.datasets.on_disk import OnDisk
from tta_bench.datasets.transform import Transform
from tta_bench.download.table import bringing
from tta_bench.errors import UserError


class Arrays(OnDisk):
    """`<data>` and `<labels>`, two .npy files in DATA_ROOT/<folder>; one task, named after the folder."""

    layout = "<folder>/<data>.npy and <labels>.npy"
    num_classes: int = 10
    size = PIXELS
    interpolation = "bicubic"

    def __init__(
        self,
        root: Path | None,
        *,
        folder: Folder,
        data: Annotated[Text, Meta(description="The file of images: bytes of shape (N, 32, 32, 3).")],
        labels: Annotated[Text, Meta(description="The file of labels: whole numbers of shape (N,).")],
        classes: Annotated[Count, Meta(description="How many classes there are.")],
        images: Published,
        allow_partial: Partial = False,
    ) -> None:
        super().__init__(root, allow_partial=allow_partial)
        self.folder, self.data, self.labels, self.images = folder, data, labels, images
        self.num_classes = classes
        self.layout = f"{folder}/{data} and {labels}"

    @property
    def transform(self) -> Transform | None:
        """Enlarges images for a model with more than 32 input pixels."""
        if self.size == PIXELS:
            return None
        return Transform(self.size, self.size, interpolation=self.interpolation)

    def tasks(self) -> Sequence[str]:
        return (Path(self.folder).name,)

    def published(self, task: str) -> tuple[int, int]:
        return self.num_classes, self.images

    def downloads(self, task: str | None = None) -> Sequence[str]:
        return bringing(self.folder)

    def seems_there(self, task: str) -> bool:
        return is_file(self._home() / self.labels)

    def places(self, task: str) -> Sequence[Path]:
        return [self._home() / self.data, self._home() / self.labels]

    def open(self, task: str) -> ArrayFile:
        file = self._home() / self.data
        labels, count = load_labels(self._home() / self.labels, self.num_classes), len(map_images(file))
        if count != len(labels):
            raise UserError(f"{file}: {count:,} images, but {self.labels} has {len(labels):,} labels")
        self.refuse_partial(file, None if count == self.images else f"{count:,} images, expected {self.images:,}")
        ids = [f"{task}/{row:05d}" for row in range(count)]
        return ArrayFile(file, np.arange(count), ids, labels, self.transform)

    def _home(self) -> Path:
        return self.find((self.folder,), lambda folder: is_file(folder / self.data))
