"""CIFAR-10.1 and similar sets: one array of images and one of labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from tta_bench.checked.annotations import Count, Folder, Partial, Published, Text
from tta_bench.datasets.array_files import ArrayFile, ArrayKind, load_labels, map_images
from tta_bench.datasets.listing import is_file
from tta_bench.datasets.on_disk import OneFolder
from tta_bench.errors import UserError


class Arrays(OneFolder, ArrayKind):
    """`<data>` and `<labels>`, two .npy files in DATA_ROOT/<folder>; one task, named after the folder."""

    layout = "<folder>/<data>.npy and <labels>.npy"

    def __init__(
        self,
        root: Path | None,
        *,
        folder: Folder,
        data: Annotated[
            Text, Meta(description="The file of images, .npy may be left out: bytes of shape (N, 32, 32, 3).")
        ],
        labels: Annotated[
            Text, Meta(description="The file of labels, .npy may be left out: whole numbers of shape (N,).")
        ],
        classes: Annotated[Count, Meta(description="How many classes there are.")],
        images: Published,
        allow_partial: Partial = False,
    ) -> None:
        super().__init__(root, allow_partial=allow_partial)
        self.folder, self.images, self.num_classes = folder, images, classes
        self.data, self.labels = (f"{name.removesuffix('.npy')}.npy" for name in (data, labels))
        self.layout = f"{folder}/{self.data} and {self.labels}"

    def published(self, task: str) -> tuple[int, int]:
        return self.num_classes, self.images

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
