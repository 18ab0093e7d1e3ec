"""Hashes of files and folders that settings name: a result is known by their contents, not by their names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tta_bench.files import checksum


def files_in(paths: Iterable[Path]) -> list[Path]:
    """Files as they are, and those of folders; a missing one stays, so that its coming is noticed."""
    found = []
    for path in (path.expanduser().absolute() for path in paths):
        found += sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
    return found


def content_hash(paths: Iterable[Path]) -> str:
    """A hash over the contents of files and folders, not over their names and places; "" without any."""
    found = [_content(path, stat.st_size, stat.st_mtime_ns) for path in files_in(paths) if (stat := _stat(path))]
    return hashlib.sha256("".join(found).encode()).hexdigest()[:16] if found else ""


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:  # whoever needs the file says so
        return None


@cache
def _content(path: Path, size: int, time: int) -> str:
    """A hash of a file as it was at that time."""
    try:
        return checksum(path)
    except OSError:
        return ""
