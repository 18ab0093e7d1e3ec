"""Shared by datasets that the user provides: finding them, refusing incomplete ones, checking a sample."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tta_bench.checked import parse
from tta_bench.checked.annotations import Partial, Resizing
from tta_bench.data.seeding import permutation
from tta_bench.datasets.base import SAMPLE, Dataset
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.listing import Classes, is_file, is_folder, list_classes
from tta_bench.datasets.opening import OnOpened
from tta_bench.datasets.transform import Transform, photograph
from tta_bench.download.table import sets_for
from tta_bench.errors import UserError
from tta_bench.files import read_whole

SOURCE_IMAGES = 2000  # as EATA's authors take for their Fisher information
MADE = "make-corrupted.json"  # marks a tree that was made here, not downloaded
UNFINISHED = ".unfinished-"  # starts the name of a file that lists folders of such a tree, while they are made

D = TypeVar("D", bound="OnDisk")


class OnDisk(Dataset):
    """Data below --data-root. A task that differs from the published one is refused unless `allow_partial: true`."""

    size = 224
    interpolation = "bilinear"

    def __init__(self, root: Path | None, *, allow_partial: Partial = False, interpolation: Resizing = None) -> None:
        self.root = root
        self.wanted = interpolation
        self.allow_partial = allow_partial
        self._listings: dict[Path, Classes] = {}  # shared by the copies that `_with` makes

    @property
    def transform(self) -> Transform | None:
        return self.clean_view()

    @abstractmethod
    def seems_there(self, task: str) -> bool: ...

    def sized(self: D, size: int, interpolation: str | None = None) -> D:
        return self._with(size=size, interpolation=self.wanted or interpolation or self.interpolation)

    def _with(self: D, **changes: Any) -> D:
        changed = copy.copy(self)
        vars(changed).update(changes)
        return changed

    def inspect(self, task: str, *, sample: int | None = SAMPLE, on_opened: OnOpened | None = None) -> str:
        found = super().inspect(task, sample=sample, on_opened=on_opened)
        return found + (" (allow_partial: not compared with what is published)" if self.allow_partial else "")

    def listed(self, folder: Path) -> Classes:
        """The images of each class folder; listed once and shared by all sizes and severities."""
        if folder not in self._listings:
            self._listings[folder] = list_classes(folder)
        return self._listings[folder]

    def data_root(self) -> Path:
        """The folder of the user's datasets."""
        if self.root is None:
            raise UserError(f"this suite needs --data-root DIR with {self.layout}")
        if not is_folder(self.root):
            raise UserError(f"--data-root {self.root} is not a folder: expected one with {self.layout}{self.hint()}")
        return self.root

    def find(self, names: Iterable[str], holds: Callable[[Path], bool]) -> Path:
        """The first folder of these names below the data root that holds the data, or the data root itself."""
        root = self.data_root()
        for folder in (*(root / name for name in names), root):
            if is_folder(folder) and holds(folder):
                return folder
        raise UserError(f"no data for this suite in --data-root {root}: expected {self.layout}{self.hint()}")

    def hint(self, task: str | None = None) -> str:
        """The command that downloads a task, to append to an error; empty if there is none."""
        names = " ".join(self.downloads(task))
        return f": run `tta-bench download {names}`" if names else ""

    def refuse_partial(self, where: Path, complaint: str | None) -> None:
        """Refuse incomplete data: its results would not be comparable with published ones."""
        if complaint and not self.allow_partial:
            raise UserError(f"{where}: {complaint} (a smaller set needs allow_partial: true in the suite's data)")

    def clean_view(self) -> Transform:
        """How photographs become the model's input."""
        return photograph(self.size, self.interpolation)


class OneFolder(OnDisk):
    """A published dataset in DATA_ROOT/<folder>: one task, named after the folder."""

    folder: str

    def tasks(self) -> Sequence[str]:
        return (Path(self.folder).name,)

    def downloads(self, task: str | None = None) -> Sequence[str]:
        return sets_for(self.folder)


def in_folders(
    folder: Path, found: Classes, rank: Mapping[str, int], view: Transform, *, prefix: str = ""
) -> FolderImages:
    """The images of class folders, labelled by the rank of their class; UserError if there are none."""
    refuse_unfinished(folder)
    if not found:
        raise UserError(f"{folder}: has no images: expected a folder for each class in it")
    ids = [f"{prefix}{name}/{file}" for name, files in found.items() for file in files]
    return FolderImages(folder, ids, labels_of(found, rank), view, prefix)


def refuse_unfinished(folder: Path) -> None:
    """Refuse a folder that `make-corrupted` has begun and not finished: it may lack some images."""
    for home in folder.resolve().parents[:2]:
        for mark in home.glob(f"{UNFINISHED}*") if is_file(home / MADE) else ():
            if folder.resolve().relative_to(home).as_posix() in parse.from_json(read_whole(mark), str(mark)):
                raise UserError(
                    f"{folder}: make-corrupted has not finished it: run the same make-corrupted command again"
                )


def labels_of(found: Classes, rank: Mapping[str, int]) -> NDArray[np.int64]:
    return np.repeat([rank[name] for name in found], [len(files) for files in found.values()]).astype(np.int64)


def some_of(images: FolderImages, *names: object, most: int = SOURCE_IMAGES) -> FolderImages:
    """A random sample, the same on every machine, in listed order."""
    return at(images, np.sort(permutation(len(images.ids), *names)[:most]))


def at(images: FolderImages, positions: NDArray[np.int64]) -> FolderImages:
    """The images at these positions, in this order."""
    return replace(images, ids=[images.ids[i] for i in positions], labels=images.labels[positions])
