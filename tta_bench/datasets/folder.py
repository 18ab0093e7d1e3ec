"""Your own images: a folder of class folders, labelled by class name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tta_bench.checked.annotations import Folder, Resizing
from tta_bench.datasets.class_names import ClassNames, refuse_other_classes
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.listing import is_folder, list_folders
from tta_bench.datasets.on_disk import OnDisk, in_folders
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError


class ClassNamedFolder(OnDisk):
    """`<class>/*.jpg` in DATA_ROOT/<folder>; one task, named after the folder."""

    layout = "<folder>/<class>/*.jpg"

    def __init__(
        self, root: Path | None, *, folder: Folder, classes: ClassNames = (), interpolation: Resizing = None
    ) -> None:
        super().__init__(root, interpolation=interpolation)
        self.folder, self.names = folder, classes
        self.layout = f"{folder}/<class>/*.jpg"

    @property
    def num_classes(self) -> int:
        return len(self.classes())

    @property
    def transform(self) -> Transform:
        return self.clean_view()

    def classes(self) -> Sequence[str]:
        """The class names in the order of the model's logits."""
        return self.names or list_folders(self._home())

    def tasks(self) -> Sequence[str]:
        return (Path(self.folder).name,)

    def seems_there(self, task: str) -> bool:
        return is_folder(self._home())

    def places(self, task: str) -> Sequence[Path]:
        return [self._home()]

    def open(self, task: str) -> FolderImages:
        home = self._home()
        found = self.listed(home)
        refuse_other_classes(home, list(found), self.classes())
        rank = {name: label for label, name in enumerate(self.classes())}
        return in_folders(home, found, rank, self.transform)

    def _home(self) -> Path:
        home = self.data_root() / self.folder
        if not is_folder(home):
            raise UserError(f"{home} is missing: expected {self.layout} below --data-root")
        return home
