"""ImageNet-R, ImageNet-A and similar sets: folders of some of the ImageNet classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from tta_bench.checked.annotations import Folder, Partial, Published, Resizing
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.imagenet import CLASSES, ImageNetKind, ranks, refuse_unknown_classes
from tta_bench.datasets.listing import complaint, list_folders, list_names
from tta_bench.datasets.on_disk import OneFolder, in_folders
from tta_bench.errors import UserError


class ClassFolders(OneFolder, ImageNetKind):
    """`<wnid>/*.jpg` in DATA_ROOT/<folder>, or in DATA_ROOT itself; one task, named after the folder.

    A class folder is named by its WordNet id, or by its number from 0 to 999 as in ImageNet-V2. The mask is read from
    these names: the 1000 logits are cut down to the classes that occur, in ascending order, so an image's label is the
    rank of its class.
    """

    layout = "<folder>/<wnid>/*.jpg"

    def __init__(
        self,
        root: Path | None,
        *,
        folder: Folder,
        classes: Published,
        images: Published,
        named_by: Annotated[
            Literal["wnid", "number"], Meta(description="What names a class folder: its WordNet id, or its logit.")
        ] = "wnid",
        allow_partial: Partial = False,
        interpolation: Resizing = None,
    ) -> None:
        super().__init__(root, allow_partial=allow_partial, interpolation=interpolation)
        self.folder, self.named_by = folder, named_by
        self._published = classes, images
        self.layout = f"{self.folder}/<{'wnid' if named_by == 'wnid' else f'0 to {CLASSES - 1}'}>/*.jpg"

    @property
    def num_classes(self) -> int:
        return len(self.class_mask()) if self.allow_partial else self._published[0]

    def published(self, task: str) -> tuple[int, int]:
        return self._published

    def class_mask(self) -> tuple[int, ...]:
        home = self._home()
        names = list_folders(home)
        logits = self._logits(home, names)
        if not names:
            raise UserError(f"{home}: has no class folders")
        if len(names) != self._published[0]:
            self.refuse_partial(home, f"{len(names)} classes, expected {self._published[0]}")
        return tuple(sorted(logits.values()))

    def open(self, task: str) -> FolderImages:
        home = self._home()
        found = self.listed(home)
        logits = self._logits(home, list(found))
        self.refuse_partial(home, complaint(found, self._published))
        rank = {name: i for i, name in enumerate(sorted(found, key=logits.__getitem__))}
        return in_folders(home, found, rank, self.clean_view())

    def places(self, task: str) -> Sequence[Path]:
        return [self._home()]

    def seems_there(self, task: str) -> bool:
        self._home()  # the task is this folder
        return True

    def _home(self) -> Path:
        return self.find((self.folder,), lambda folder: any(name in self._known() for name in list_names(folder)))

    def _logits(self, home: Path, names: Sequence[str]) -> Mapping[str, int]:
        """The logit of each class folder; UserError if one is not named after a class."""
        if self.named_by == "wnid":
            refuse_unknown_classes(home, names)
        elif unknown := [name for name in names if name not in self._known()]:
            raise UserError(f"{home / unknown[0]}: '{unknown[0]}' is not a class from 0 to {CLASSES - 1}")
        return {name: self._known()[name] for name in names}

    def _known(self) -> Mapping[str, int]:
        return ranks() if self.named_by == "wnid" else {str(logit): logit for logit in range(CLASSES)}
