"""Your own images: a folder of class folders, labelled by class name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tta_bench.checked.annotations import Folder, Resizing
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.listing import list_folders
from tta_bench.datasets.on_disk import in_folders
from tta_bench.datasets.own_folder import ClassNames, OwnFolder, refuse_other_classes


class ClassNamedFolder(OwnFolder):
    """`<class>/*.jpg` in DATA_ROOT/<folder>; one task, named after the folder."""

    layout = "<folder>/<class>/*.jpg"

    def __init__(
        self, root: Path | None, *, folder: Folder, classes: ClassNames = (), interpolation: Resizing = None
    ) -> None:
        super().__init__(root, folder, classes, interpolation)
        self.layout = f"{folder}/<class>/*.jpg"

    @property
    def num_classes(self) -> int:
        return len(self.classes())

    def classes(self) -> Sequence[str]:
        """The class names in the order of the model's logits."""
        return self.names or list_folders(self._home())

    def places(self, task: str) -> Sequence[Path]:
        return [self._home()]

    def open(self, task: str) -> FolderImages:
        home = self._home()
        found = self.listed(home)
        refuse_other_classes(home, list(found), self.classes())
        rank = {name: label for label, name in enumerate(self.classes())}
        return in_folders(home, found, rank, self.clean_view())
