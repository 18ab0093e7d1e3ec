"""Shared by kinds for your own images: a folder below --data-root, labelled by class name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from tta_bench.checked.annotations import Resizing, Text
from tta_bench.datasets.listing import is_folder
from tta_bench.datasets.on_disk import OnDisk
from tta_bench.errors import UserError, some

ClassNames = Annotated[
    tuple[Text, ...],
    Meta(description="Class names in the order of the model's logits; empty: the sorted names in the data."),
]


class OwnFolder(OnDisk):
    """Data in DATA_ROOT/<folder>; one task, named after the folder."""

    def __init__(self, root: Path | None, folder: str, classes: Sequence[str], interpolation: Resizing) -> None:
        super().__init__(root, interpolation=interpolation)
        self.folder, self.names = folder, classes

    def tasks(self) -> Sequence[str]:
        return (Path(self.folder).name,)

    def seems_there(self, task: str) -> bool:
        return is_folder(self._home())

    def _home(self) -> Path:
        home = self.data_root() / self.folder
        if not is_folder(home):
            raise UserError(f"{home} is missing: expected {self.layout} below --data-root")
        return home


def refuse_other_classes(where: Path, names: Sequence[str], classes: Sequence[str]) -> None:
    """Refuse images of classes that the suite does not name: they have no label."""
    twice = sorted({name for name in classes if classes.count(name) > 1})
    if twice:
        raise UserError(f"data: classes: '{twice[0]}' is listed twice")
    unknown = [name for name in names if name not in classes]
    if unknown:
        raise UserError(f"{where}: {some(unknown)} not among the suite's classes ({some(classes)})")
