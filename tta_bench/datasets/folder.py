"""Your own images: folders of class folders, labelled by class name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

from msgspec import Meta

from tta_bench.checked.annotations import Folder, Resizing, Text
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.listing import is_folder, list_folders
from tta_bench.datasets.on_disk import in_folders, some_of
from tta_bench.datasets.own_folder import ClassNames, OwnFolder, refuse_other_classes
from tta_bench.errors import UserError

Subfolders = Annotated[
    tuple[Text, ...],
    Meta(description="Subfolders, each a task named after its first part, as fog/5; empty: the folder is one task."),
]
SourceFolder = Annotated[
    Text | None, Meta(description="Clean images below --data-root, in class folders too, for methods that need some.")
]


class ClassNamedFolder(OwnFolder):
    """`<class>/*.jpg` in DATA_ROOT/<folder>, or in its subfolders, each of which is a task."""

    layout = "<folder>/<class>/*.jpg"

    def __init__(
        self,
        root: Path | None,
        *,
        folder: Folder,
        classes: ClassNames = (),
        tasks: Subfolders = (),
        source: SourceFolder = None,
        interpolation: Resizing = None,
    ) -> None:
        super().__init__(root, folder, classes, interpolation)
        self.source = source
        self._subfolders = {PurePosixPath(path).parts[0]: path for path in tasks}
        if len(self._subfolders) < len(tasks):
            raise UserError(
                f"data: tasks: two of {', '.join(tasks)} would have the same name, that of their first part"
            )
        self.layout = f"{folder}/{'<task>/' * bool(tasks)}<class>/*.jpg"

    @property
    def num_classes(self) -> int:
        return len(self.classes())

    def classes(self) -> Sequence[str]:
        """The class names in the order of the model's logits."""
        return self.names or list_folders(self._place(self.tasks()[0]))

    def tasks(self) -> Sequence[str]:
        return tuple(self._subfolders) or super().tasks()

    def seems_there(self, task: str) -> bool:
        return is_folder(self._home() / self._subfolders.get(task, ""))

    def places(self, task: str) -> Sequence[Path]:
        return [self._place(task)]

    def source_places(self, task: str) -> Sequence[Path]:
        return [self._source()]

    def open(self, task: str) -> FolderImages:
        return self._labelled(self._place(task), f"{task}/" if self._subfolders else "")

    def source_images(self, task: str | None = None) -> FolderImages:
        """2,000 images of the folder that `source` names, or all if there are fewer."""
        return some_of(self._labelled(self._source(), "source/"), "folder", "source")

    def _labelled(self, home: Path, prefix: str) -> FolderImages:
        found = self.listed(home)
        refuse_other_classes(home, list(found), self.classes())
        rank = {name: label for label, name in enumerate(self.classes())}
        return in_folders(home, found, rank, self.clean_view(), prefix=prefix)

    def _place(self, task: str) -> Path:
        place = self._home() / self._subfolders.get(task, "")
        if not is_folder(place):
            raise UserError(f"{place} is missing: expected {self.layout} below --data-root")
        return place

    def _source(self) -> Path:
        if self.source is None:
            raise UserError(
                "this method needs clean source images: name a folder of them below --data-root, in class folders, as "
                "`source` in the suite's data"
            )
        place = self.data_root() / self.source
        if not is_folder(place):
            raise UserError(f"{place} is missing: expected clean images in {self.source}/<class>/*.jpg")
        return place
