"""Disk space: how much a download takes, and whether there is enough."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tta_bench.download import transfer
from tta_bench.download.table import PublishedFile
from tta_bench.errors import UserError


@dataclass(frozen=True)
class Need:
    """The bytes that files will take."""

    kept: int  # in the end
    at_most: int  # while the largest archive and its content both exist
    unknown: int  # number of files without a stated size


def need(files: Sequence[tuple[PublishedFile, str, int]]) -> Need:
    """What files need: each with its address, and the bytes that have already arrived."""
    kept, archives, arrived, unknown = 0, [0], 0, 0
    for file, address, held in files:
        size = file.expected_bytes or transfer.remote_size(address)
        if size is None:
            unknown += 1
            continue
        kept += size
        arrived += min(held, size)
        archives += [size] if file.is_unpacked else []
    return Need(kept, kept + max(archives) - arrived, unknown)


def free(folder: Path) -> int:
    """The bytes that can still be written below a folder, which need not exist yet."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free


def require(folder: Path, size: int, what: str) -> None:
    """Refuse to start something for which there is too little room."""
    if (room := free(folder)) < size:
        raise UserError(
            f"{what} needs {gigabytes(size)}, but {folder} has only {gigabytes(room)} left: make room first"
        )


def gigabytes(size: int) -> str:
    """A size in GB, MB or bytes."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size:,} bytes"
