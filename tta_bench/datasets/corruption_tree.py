"""Shared by ImageNet-C and its relatives: a folder per corruption and severity, or tars of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from tta_bench.checked.annotations import Partial, Severity
from tta_bench.data.images import ImageSet
from tta_bench.datasets.files import FolderImages, TarImages
from tta_bench.datasets.listing import Classes, is_file, is_folder, is_there, list_folders
from tta_bench.datasets.on_disk import OnDisk, in_folders, labels_of
from tta_bench.datasets.tar import index
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError


class CorruptionTree(OnDisk):
    """`<corruption>/<severity>/<class>/*.JPEG` in one of the homes below DATA_ROOT, or in DATA_ROOT itself.

    A corruption without a folder is read from `<corruption>.tar`, or from the published tar that has it, without
    unpacking; its headers are scanned once per process, which takes seconds per tar.
    """

    homes: ClassVar[tuple[str, ...]]
    parts: ClassVar[Mapping[str, Sequence[str]]] = {}  # the tars of the published download, and their corruptions
    corruptions: ClassVar[tuple[str, ...]]

    def __init__(self, root: Path | None, *, severity: Severity, allow_partial: Partial = False) -> None:
        super().__init__(root, allow_partial=allow_partial)
        self.severity = severity

    @abstractmethod
    def ranks(self, where: Path, task: str, found: Classes) -> Mapping[str, int]:
        """The label of each class; refuses classes and counts that differ from the published ones."""

    @property
    def transform(self) -> Transform:
        """Resizes to the model's input size."""
        return Transform(self.size, self.size, interpolation=self.interpolation)

    def at_severity(self, severity: int) -> CorruptionTree:
        return self._with(severity=severity)

    def tasks(self) -> Sequence[str]:
        return self.corruptions

    def open(self, task: str) -> ImageSet:
        home = self._home()
        folder = home / task / str(self.severity)
        has_folder = is_folder(folder)
        if has_folder and list_folders(folder):
            return self._from_folder(folder, task)
        for file in self._tars(home, task):  # an empty folder does not hide a tar
            return self._from_tar(file, task)
        if has_folder:
            raise UserError(f"{folder}: has no images: expected {self.layout}")
        raise UserError(f"{folder} is missing: expected {self.layout}{self.hint(task)}")

    def seems_there(self, task: str) -> bool:
        home = self._home()
        return is_folder(home / task / str(self.severity)) or bool(self._tars(home, task))

    def places(self, task: str) -> Sequence[Path]:
        home = self._home()
        folder = home / task / str(self.severity)
        return [folder, *self._tars(home, task)] if is_folder(folder) else self._tars(home, task)

    def _home(self) -> Path:
        return self.find(self.homes, self._holds_corruptions)

    def _holds_corruptions(self, folder: Path) -> bool:
        # A broken link counts: opening its task reports it, and the other tasks continue.
        return any(is_there(folder / name) for task in self.corruptions for name in (task, *self._tar_names(task)))

    def _tars(self, home: Path, task: str) -> list[Path]:
        """The existing tars that may hold a corruption."""
        return [home / name for name in self._tar_names(task) if is_file(home / name)]

    def _tar_names(self, task: str) -> list[str]:
        return [f"{task}.tar", *(part for part, corruptions in self.parts.items() if task in corruptions)]

    def _from_folder(self, folder: Path, task: str) -> FolderImages:
        found = self.listed(folder)
        rank = self.ranks(folder, task, found)
        return in_folders(folder, found, rank, self.transform, prefix=f"{task}/{self.severity}/")

    def _from_tar(self, file: Path, task: str) -> TarImages:
        members = index(file).get((task, self.severity))
        if members is None:
            raise UserError(f"{file}: has no {task}/{self.severity}/<class>/*.JPEG in it")
        found: dict[str, list[str]] = {}
        for path in members.paths:
            name, _, image = path.partition("/")
            found.setdefault(name, []).append(image)
        rank = self.ranks(file, task, found)
        ids = [f"{task}/{self.severity}/{path}" for path in members.paths]
        places = np.array(members.offsets, np.int64), np.array(members.sizes, np.int64)
        return TarImages(file, ids, labels_of(found, rank), self.transform, *places)
