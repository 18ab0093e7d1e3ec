"""Predictions as a packed run holds them: what all rows of a stream share once, and each row's other columns.

Rows of one stream have the same index, label and task, and the same header of their .npy files. Columns are stored byte
by byte across images: neighbours then are alike and compress well. `join` gives back the bytes of the .npy file, whose
digest is in the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError
from tta_bench.files import read_whole
from tta_bench.records.predictions import OPEN_ROW, ROW, digest

SUFFIX = ".columns"
STREAMS = "streams"  # the folder of what rows share
SHARED = ("index", "label", "task")
NAME = 64  # bytes of a digest: a row's file starts with the name of its stream's file
BAD = "damaged, or not made by `tta-bench pack`"


def split(content: bytes, samples: int) -> tuple[str, bytes, bytes]:
    """A .npy file with this many rows as the name and the content of its stream's file, and its own file."""
    start = _header_size(content)
    row = OPEN_ROW if len(content) - start == samples * OPEN_ROW.itemsize else ROW
    table = np.frombuffer(content, np.uint8, offset=start).reshape(samples, row.itemsize)
    is_shared = _is_shared(row)
    shared = content[:start] + table[:, is_shared].T.tobytes()
    name = digest(shared)
    return name, shared, name.encode() + table[:, ~is_shared].T.tobytes()


def join(shared: bytes, own: bytes, where: str) -> bytes:
    """The .npy file that was split; UserError if the two parts do not fit together."""
    start, width = _header_size(shared), int(_is_shared(ROW).sum())
    samples, rest = divmod(len(shared) - start, width)
    for row in (ROW, OPEN_ROW):
        if samples > 0 and not rest and len(own) - NAME == samples * (row.itemsize - width):
            is_shared, table = _is_shared(row), np.empty((samples, row.itemsize), np.uint8)
            table[:, is_shared] = np.frombuffer(shared, np.uint8, offset=start).reshape(width, samples).T
            table[:, ~is_shared] = np.frombuffer(own, np.uint8, offset=NAME).reshape(-1, samples).T
            return shared[:start] + table.tobytes()
    raise UserError(f"{where}: its columns do not fit those of its stream: {BAD}")


def join_all(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The names and contents of the .npy files in an unpacked folder."""
    there = {path.stem: path for path in (folder / STREAMS).glob(f"*{SUFFIX}")}
    for path in sorted((folder / "cells").glob(f"*{SUFFIX}")):
        own = read_whole(path)
        stream = there.get(own[:NAME].decode("ascii", "replace"))
        if stream is None:
            raise UserError(f"{path.name}: the columns of its stream are missing: {BAD}")
        yield path.with_suffix(".npy"), join(read_whole(stream), own, path.name)


def _header_size(content: bytes) -> int:
    """The bytes before the rows of a .npy file."""
    return 10 + int.from_bytes(content[8:10], "little")


def _is_shared(row: np.dtype[np.void]) -> NDArray[np.bool_]:
    """Which bytes of a row belong to the columns that rows share."""
    found = np.zeros(row.itemsize, np.bool_)
    for name in SHARED:
        kind, start, *_ = row.fields[name] if row.fields else (row, 0)
        found[start : start + kind.itemsize] = True
    return found
