"""Your own images: a Hugging Face dataset on disk, labelled by class name. Needs `pip install tta-bench[hf]`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from tta_bench.checked.annotations import Folder, Resizing, Text
from tta_bench.datasets.files import Viewed, decode
from tta_bench.datasets.own_folder import ClassNames, OwnFolder, refuse_other_classes
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError, require_known


@dataclass(frozen=True, eq=False)
class HuggingFaceImages(Viewed):
    """The images of one split; each process opens the files itself, so that this can be pickled."""

    folder: Path
    split: str
    column: str
    ids: Sequence[str]
    labels: NDArray[np.int64]
    view: Transform

    @property
    def files(self) -> list[Path]:
        """Every file that `read` may open."""
        return _files(self.folder)

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        rows = _undecoded(self.folder, self.split, self.column)
        return np.stack([self._read(rows[int(i)], self.ids[i]) for i in indices])

    def _read(self, row: dict[str, Any], name: str) -> NDArray[np.uint8]:
        stored = row[self.column]
        content = io.BytesIO(stored["bytes"]) if stored["bytes"] else Path(stored["path"])
        return decode(content, f"{name} in {self.folder}", self.view)


class HuggingFace(OwnFolder):
    """What `save_to_disk` wrote, or parquet files, in DATA_ROOT/<folder>; one task, named after the folder."""

    layout = "<folder> as written by datasets.save_to_disk, or with *.parquet files"

    def __init__(
        self,
        root: Path | None,
        *,
        folder: Folder,
        split: Annotated[
            Text, Meta(description="The split to score; parquet files without one in their names are `train`.")
        ],
        image: Annotated[Text, Meta(description="The column of images.")] = "image",
        label: Annotated[Text, Meta(description="The column of labels: class names, or numbers.")] = "label",
        classes: ClassNames = (),
        interpolation: Resizing = None,
    ) -> None:
        super().__init__(root, folder, classes, interpolation)
        self.split, self.image, self.label = split, image, label
        self.layout = f"{folder} as written by datasets.save_to_disk, or with *.parquet files"

    @property
    def num_classes(self) -> int:
        return len(self.names or self._labels()[0])

    def places(self, task: str) -> Sequence[Path]:
        return _files(self._home())

    def open(self, task: str) -> HuggingFaceImages:
        home = self._home()
        names, stored = self._labels()
        classes = list(self.names or names)
        refuse_other_classes(home, [names[label] for label in np.unique(stored)], classes)
        rank = np.array([classes.index(name) if name in classes else -1 for name in names], np.int64)
        ids = [f"{self.split}/{row:06d}" for row in range(len(stored))]
        _undecoded(home, self.split, self.image)  # a missing or wrong column is reported before a run
        return HuggingFaceImages(home, self.split, self.image, ids, rank[stored], self.clean_view())

    def _labels(self) -> tuple[list[str], NDArray[np.int64]]:
        """The names of all classes, and the index of each image's class among them."""
        rows = _opened(self._home(), self.split)
        require_known([self.label], rows.column_names, f"{self._home()}: has no column")
        values, kind = rows[self.label], rows.features[self.label]
        if hasattr(kind, "names"):
            hidden = sum(value is None or value < 0 for value in values)  # as test sets are published
            if hidden:
                raise UserError(f"{self._home()}: {hidden:,} of {len(values):,} images have no label in '{self.label}'")
            return list(kind.names), np.asarray(values, np.int64)
        if values and all(isinstance(value, int) and value >= 0 for value in values):
            return [str(number) for number in range(max(values) + 1)], np.asarray(values, np.int64)
        if values and all(isinstance(value, str) for value in values):
            names = sorted(set(values))
            rank = {name: i for i, name in enumerate(names)}
            return names, np.array([rank[value] for value in values], np.int64)
        raise UserError(f"{self._home()}: column '{self.label}' has neither class names nor numbers from 0: {kind}")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".arrow", ".parquet"))


@lru_cache(maxsize=4)
def _opened(folder: Path, split: str) -> Any:
    """One split, mapped from disk; UserError if it does not exist."""
    try:
        import datasets
    except ImportError as error:
        raise UserError("kind: hf needs the package datasets: pip install 'tta-bench[hf]'") from error
    is_parquet = any(file.suffix == ".parquet" for file in _files(folder))
    try:  # splits of parquet files are those that their names say, as in a copy of the hub's repository
        whole = (datasets.load_dataset if is_parquet else datasets.load_from_disk)(str(folder))
    except Exception as error:  # many kinds, for anything that is not a dataset
        why = " ".join(str(error).split())
        raise UserError(f"{folder}: not a Hugging Face dataset ({why})") from error
    if not isinstance(whole, dict):  # saved without splits
        return whole
    require_known([split], whole, f"{folder}: has no split")
    return whole[split]


@lru_cache(maxsize=4)
def _undecoded(folder: Path, split: str, column: str) -> Any:
    """One split with its images as stored bytes: the transform decodes them."""
    import datasets

    rows = _opened(folder, split)
    require_known([column], rows.column_names, f"{folder}: has no column")
    if not isinstance(rows.features[column], datasets.Image):
        raise UserError(f"{folder}: column '{column}' has no images, it has {rows.features[column]}")
    return rows.select_columns([column]).cast_column(column, datasets.Image(decode=False))
