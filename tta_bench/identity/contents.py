"""Hashes of files and folders that settings name: results depend on their contents, not their names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from tta_bench.files import checksum


def files_in(paths: Iterable[Path]) -> list[Path]:
    """All files of these files and folders; a missing file stays in the list, so that it is noticed when it appears."""
    found = []
    for path in (path.expanduser().absolute() for path in paths):
        found += sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
    return found


def content_hash(paths: Iterable[Path]) -> str:
    """A hash over the contents of files and folders, not over their names and places; "" without any."""
    found = []
    for path in files_in(paths):
        with suppress(OSError):  # the code that needs the file reports it
            found.append(_content(path, path.stat().st_size, path.stat().st_mtime_ns))
    return hashlib.sha256("".join(found).encode()).hexdigest()[:16] if found else ""


@cache
def _content(path: Path, size: int, time: int) -> str:
    """A hash of a file as it was at that time."""
    try:
        return checksum(path)
    except OSError:
        return ""
