"""VisDA-2021 and similar sets: images from a list of paths and labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

import numpy as np
from msgspec import Meta

from tta_bench.checked.annotations import Folder, Partial, Published, Resizing, Text
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.imagenet import CLASSES, ImageNetKind
from tta_bench.datasets.listing import is_file, missing_from
from tta_bench.datasets.on_disk import OneFolder
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError, some

DIGITS = 9  # longer labels are invalid and would not fit into an array


class FileList(OneFolder, ImageNetKind):
    """`<list>` in DATA_ROOT/<folder> or in DATA_ROOT, with lines "path label"; one task, named after the folder.

    Paths start at the folder; a leading `<root>/` or `./`, as the published lists have, means the same. `only`
    keeps the lines whose path has that folder in it: DPAL's own list is not released, but should be the
    imagenet_c_and_r lines of VisDA's `imagenet_c_r_o_filelist.txt`.

    Labels of 1000 and above mean "unknown"; they become 1000, which no model predicts: such images stay and
    count as wrong.
    """

    layout = "<folder>/<list>, with lines 'path label'"
    num_classes = CLASSES

    def __init__(
        self,
        root: Path | None,
        *,
        folder: Folder,
        list: Annotated[Text, Meta(description="The file with lines 'path label', in the folder.")],
        images: Published,
        only: Annotated[Text | None, Meta(description="Keep only lines whose path contains this folder.")] = None,
        allow_partial: Partial = False,
        interpolation: Resizing = None,
    ) -> None:
        super().__init__(root, allow_partial=allow_partial, interpolation=interpolation)
        self.folder, self.list, self.images, self.only = folder, list, images, only
        self.layout = f"{self.folder}/{self.list}, with lines 'path label'"

    @property
    def transform(self) -> Transform:
        """Squashes to a square first, as VisDA's own code does."""
        view = self.clean_view()
        return Transform(view.resize, view.crop, squash=True, interpolation=view.interpolation)

    def published(self, task: str) -> tuple[int, int]:
        return CLASSES, self.images

    def seems_there(self, task: str) -> bool:
        return is_file(self._home() / self.list)

    def open(self, task: str) -> FolderImages:
        home = self._home()
        file = home / self.list
        rows = self._rows(file)
        if len(rows) != self.images:
            self.refuse_partial(file, f"{len(rows):,} lines, expected {self.images:,}")
        ids = [path for path, _ in rows]
        _refuse_missing(home, file, ids)
        labels = np.minimum(np.array([label for _, label in rows], np.int64), CLASSES)
        return FolderImages(home, ids, labels, self.transform)

    def places(self, task: str) -> Sequence[Path]:
        home = self._home()
        return [home, home / self.list]

    def _home(self) -> Path:
        return self.find((self.folder,), lambda folder: is_file(folder / self.list))

    def _rows(self, file: Path) -> list[tuple[str, int]]:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{file}: cannot be read ({error})") from error
        rows = [_row(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
        chosen = [row for row in rows if self.only is None or self.only in PurePosixPath(row[0]).parts]
        if not chosen:
            raise UserError(f"{file}: has no line" + (f" with the folder '{self.only}'" if self.only else ""))
        return chosen


def _row(file: Path, number: int, line: str) -> tuple[str, int]:
    path, _, label = line.strip().rpartition(" ")
    if not path or not label.isdecimal() or len(label) > DIGITS:
        raise UserError(f"{file}, line {number}: expected 'path label', got '{line.strip()[:80]}'")
    for start in ("<root>/", "./"):
        path = path.strip().removeprefix(start)
    return path, int(label)


def _refuse_missing(home: Path, file: Path, ids: Sequence[str]) -> None:
    """Refuse missing files; lists each folder once instead of checking every file."""
    names: dict[str, list[str]] = {}
    for path in ids:
        folder, slash, name = path.rpartition("/")
        names.setdefault(folder + slash, []).append(name)
    missing = [folder + name for folder, wanted in names.items() for name in missing_from(home / folder, wanted)]
    if missing:
        raise UserError(f"{home}: {len(missing):,} of {len(ids):,} files in {file.name} are missing: {some(missing)}")
