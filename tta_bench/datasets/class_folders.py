"""ImageNet-R, ImageNet-A and similar sets: folders of some of the ImageNet classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tta_bench.annotations import Folder, Partial, Published, Resizing
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.imagenet import ImageNetKind, ranks, refuse_unknown_classes
from tta_bench.datasets.listing import complaint, list_folders, list_names
from tta_bench.datasets.on_disk import in_folders
from tta_bench.datasets.transform import Transform
from tta_bench.download.table import bringing
from tta_bench.errors import UserError


class ClassFolders(ImageNetKind):
    """`<wnid>/*.jpg` in DATA_ROOT/<folder>, or in DATA_ROOT itself; one task, named after the folder.

    The mask is read from the folder names: the 1000 logits are cut down to the classes that occur, in ascending
    order, so an image's label is the rank of its folder.
    """

    layout = "<folder>/<wnid>/*.jpg"

    def __init__(
        self,
        root: Path | None,
        *,
        folder: Folder,
        classes: Published,
        images: Published,
        allow_partial: Partial = False,
        interpolation: Resizing = None,
    ) -> None:
        super().__init__(root, allow_partial=allow_partial, interpolation=interpolation)
        self.folder = folder
        self._published = classes, images
        self.layout = f"{self.folder}/<wnid>/*.jpg"

    @property
    def num_classes(self) -> int:
        return len(self.class_mask()) if self.allow_partial else self._published[0]

    @property
    def transform(self) -> Transform:
        return self.clean_view()

    def tasks(self) -> Sequence[str]:
        return (Path(self.folder).name,)

    def downloads(self, task: str | None = None) -> Sequence[str]:
        return bringing(self.folder)

    def published(self, task: str) -> tuple[int, int]:
        return self._published

    def class_mask(self) -> tuple[int, ...]:
        home = self._home()
        names = list_folders(home)
        refuse_unknown_classes(home, names)
        if not names:
            raise UserError(f"{home}: has no class folders")
        if len(names) != self._published[0]:
            self.refuse_partial(home, f"{len(names)} classes, expected {self._published[0]}")
        return tuple(sorted(ranks()[name] for name in names))

    def open(self, task: str) -> FolderImages:
        home = self._home()
        found = self.listed(home)
        refuse_unknown_classes(home, found)
        self.refuse_partial(home, complaint(found, self._published))
        rank = {name: i for i, name in enumerate(found)}
        return in_folders(home, found, rank, self.transform)

    def places(self, task: str) -> Sequence[Path]:
        return [self._home()]

    def seems_there(self, task: str) -> bool:
        self._home()  # the task is this folder
        return True

    def _home(self) -> Path:
        return self.find((self.folder,), _holds_classes)


def _holds_classes(folder: Path) -> bool:
    return any(name in ranks() for name in list_names(folder))
