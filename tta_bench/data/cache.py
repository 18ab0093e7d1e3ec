"""A disk cache of decoded images, so that the second method on a task reads them at memory speed.

<folder>/<name>-<digest>.u8    4096 bytes of JSON that identify the images, then [N, 3, H, W] bytes

The digest covers ids and transform; the JSON also covers the sizes and times of the source files. A cache of other
images is never found, and one of changed files or another Pillow version is rebuilt.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import mmap
import multiprocessing
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import PIL
from numpy.typing import NDArray

from tta_bench.data.images import ImageSet
from tta_bench.data.loading import default_workers, read_ahead
from tta_bench.errors import UserError
from tta_bench.files import open_whole

OnProgress = Callable[[int, int], None]  # images decoded, of how many

HEADER = 4096
CHUNK = 64  # images per write


class FileImages(ImageSet, Protocol):
    """Images decoded from files, with what a cache must know about them."""

    @property
    def files(self) -> Sequence[Path]:
        """Every file that `read` may open."""

    @property
    def transform(self) -> str:
        """A description of what is done to decoded pixels; another description means other pixels."""


class CachedImages:
    """The same images from a cache, which one process builds at the first `read` while others wait."""

    in_memory = True

    def __init__(
        self,
        images: FileImages,
        folder: Path,
        name: str,
        *,
        workers: int | None = None,
        on_progress: OnProgress = lambda done, total: None,
    ) -> None:
        self._images = images
        self._workers = workers
        self._on_progress = on_progress
        identity = _digest([images.transform, *images.ids])
        self.path = folder / f"{re.sub(r'[^0-9A-Za-z._-]+', '-', name)}-{identity[:16]}.u8"
        self._map: mmap.mmap | None = None
        self._pixels = np.empty((0, 3, 0, 0), np.uint8)

    @property
    def decoded_from(self) -> FileImages:
        """The images without the cache."""
        return self._images

    @property
    def ids(self) -> Sequence[str]:
        return self._images.ids

    @property
    def labels(self) -> NDArray[np.int64]:
        return self._images.labels

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        self.open()
        found = self._pixels[indices]
        if self._map is not None:
            # Pages stay in the system's cache but leave this process, whose memory is measured.
            self._map.madvise(mmap.MADV_DONTNEED)
        return found

    def open(self) -> None:
        """Open the cache, building it if needed. `read` does this, too."""
        if self._map is not None:
            return
        source = self._source()
        try:
            if not self._find(source):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with _lock(self.path.with_suffix(".lock")) as is_locked:
                    if not self._find(source):
                        self._make(source, is_locked)
                        self._find(source)
        except OSError as error:
            raise UserError(
                f"cache {self.path}: {error.strerror or error}: choose another --cache, or run without"
            ) from error

    def _source(self) -> str:
        """A digest that changes whenever an image may have changed."""
        stamps = []
        for file in map(os.fspath, self._images.files):
            try:
                seen = os.stat(file)  # noqa: PTH116  # 50,000 of them: Path.stat takes twice as long
            except OSError as error:
                raise UserError(f"{file}: {error.strerror}") from error
            stamps.append(f"{file} {seen.st_size} {seen.st_mtime_ns}")
        return _digest([f"Pillow {PIL.__version__}", self._images.transform, *self._images.ids, *stamps])

    def _find(self, source: str) -> bool:
        """Map the cache file if it exists, is complete and holds these images."""
        try:
            with self.path.open("rb") as file:
                header = json.loads(file.read(HEADER))
                shape = tuple(header["shape"])
                if header["source"] != source or os.fstat(file.fileno()).st_size != HEADER + math.prod(shape):
                    return False
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False
        self._pixels = np.frombuffer(self._map, np.uint8, offset=HEADER).reshape(shape)
        return True

    def _make(self, source: str, is_locked: bool) -> None:
        """Decode every image once, in file order, and write the file atomically."""
        folder, total = self.path.parent, len(self.ids)
        if total == 0:
            raise UserError(f"cache {self.path}: there are no images to cache")
        if is_locked:  # we hold the lock, so leftovers come from crashed processes
            for leftover in folder.glob(f".{self.path.name}.*"):
                leftover.unlink(missing_ok=True)
        shape = (total, *self._images.read(np.arange(1))[0].shape)
        header = {"source": source, "shape": shape, "transform": self._images.transform[:1000]}
        self._require_space(math.prod(shape))
        with open_whole(self.path) as file:
            file.write(json.dumps(header).encode().ljust(HEADER))
            self._write_pixels(file, shape)

    def _write_pixels(self, file: IO[bytes], shape: tuple[int, ...]) -> None:
        plan = [np.arange(i, min(i + CHUNK, shape[0])) for i in range(0, shape[0], CHUNK)]
        workers = default_workers(self._images) if self._workers is None else self._workers
        if multiprocessing.current_process().daemon:
            workers = 0  # a worker process cannot have workers
        done = 0
        with closing(read_ahead(self._images, plan, workers=workers)) as chunks:
            for chunk in chunks:
                if chunk.shape[1:] != shape[1:]:
                    raise UserError(
                        f"images {done} to {done + len(chunk) - 1} of {self.path.stem} have shape "
                        f"{list(chunk.shape[1:])}, expected {list(shape[1:])}: a cache needs images of one size"
                    )
                file.write(chunk.numpy().data)
                done += len(chunk)
                self._on_progress(done, shape[0])

    def _require_space(self, needed: int) -> None:
        free = shutil.disk_usage(self.path.parent).free
        if free < needed:
            raise UserError(
                f"cache {self.path} needs {needed / 1e9:.1f} GB, only {free / 1e9:.1f} GB are free: "
                f"choose another --cache, or run without"
            )


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock, which the system releases if the process dies; False if the disk has no locks."""
    while True:
        with path.open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                held = True
            except OSError:
                held = False
            if held and not _is_at(file, path):
                continue  # the previous holder unlinked the lock file: retry
            try:
                yield held
            finally:
                if held:
                    path.unlink(missing_ok=True)
            return


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\x00".join(words).encode(errors="surrogateescape")).hexdigest()
