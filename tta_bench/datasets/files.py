"""Image sets that decode files on demand, from folders or from inside a tar.

No file stays open between calls, so that the sets can be pickled and used by many worker processes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError


class Viewed:
    """Shared by image sets that pass stored images through a transform."""

    view: Transform | None

    @property
    def transform(self) -> str:
        """A description of what is done to stored pixels."""
        return repr(self.view)


class _Paths(Sequence[Path]):
    """Paths that are made when they are asked for: 50,000 of them take 0.2 s, and most cells need eight."""

    def __init__(self, root: Path, ids: Sequence[str], prefix: int) -> None:
        self._root, self._ids, self._prefix = root, ids, prefix

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: Any) -> Any:
        return self._root / self._ids[index][self._prefix :]


@dataclass(frozen=True, eq=False)
class FolderImages(Viewed):
    """Images by their paths below a root. An id is the prefix plus that path: the same on every machine."""

    root: Path
    ids: Sequence[str]
    labels: NDArray[np.int64]
    view: Transform
    prefix: str = ""

    @property
    def files(self) -> Sequence[Path]:
        """Every file that `read` may open."""
        return _Paths(self.root, self.ids, len(self.prefix))

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        return self.read_into(_empty_batch(len(indices), self.view), indices)

    def read_into(self, buffer: NDArray[np.uint8], indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """`read` into existing memory: allocating it would take a tenth of the time."""
        files = self.files
        for row, i in zip(buffer, indices, strict=True):
            file = files[i]
            row[:] = decode(file, file, self.view)
        return buffer


@dataclass(frozen=True, eq=False)
class TarImages(Viewed):
    """Images inside an uncompressed tar, read without unpacking it."""

    tar: Path
    ids: Sequence[str]
    labels: NDArray[np.int64]
    view: Transform
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def files(self) -> list[Path]:
        """Every file that `read` may open."""
        return [self.tar]

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        return self.read_into(_empty_batch(len(indices), self.view), indices)

    def read_into(self, buffer: NDArray[np.uint8], indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """`read` into existing memory."""
        try:
            file = self.tar.open("rb")
        except OSError as error:
            raise UserError(f"{self.tar}: cannot be read ({error.strerror})") from error
        with file:
            for row, i in zip(buffer, indices, strict=True):
                file.seek(self.offsets[i])
                content = io.BytesIO(file.read(self.sizes[i]))
                row[:] = decode(content, f"{self.ids[i]} in {self.tar}", self.view)
        return buffer


def decode(file: Path | io.BytesIO, name: object, view: Transform) -> NDArray[np.uint8]:
    """One image, ready for a model; UserError with the file's name if it cannot be decoded."""
    from PIL import Image, UnidentifiedImageError

    try:
        if isinstance(file, Path):
            with file.open("rb", buffering=0) as whole:  # one read instead of Pillow's many
                file = io.BytesIO(whole.read())
        with Image.open(file) as image:
            return view(image)
    except UnidentifiedImageError as error:
        raise UserError(f"{name}: not an image: replace this file") from error
    except Exception as error:  # Pillow raises many kinds on broken content
        if isinstance(error, OSError) and error.strerror:  # a disk error: another copy would not help
            raise UserError(f"{name}: cannot be read ({error.strerror})") from error
        why = " ".join(str(error).split())
        raise UserError(f"{name}: cannot be read as an image ({why}): replace this file") from error


def _empty_batch(count: int, view: Transform) -> NDArray[np.uint8]:
    return np.empty((count, 3, view.crop, view.crop), np.uint8)
