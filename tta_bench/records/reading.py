"""Reads the files of a run folder; an unreadable or damaged one is a UserError."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from tta_bench.checked import parse
from tta_bench.errors import UserError
from tta_bench.files import read_whole
from tta_bench.records.predictions import Predictions, digest
from tta_bench.records.record import OtherSchema, Record

MOST_TEXT = 2**25  # bytes; a record of a million batches has fewer
REDO = "the same `tta-bench run` moves it aside and runs this cell again"


_whole: set[tuple[object, ...]] = set()  # files of predictions that had their digest; they are not hashed again


def read_record(path: Path) -> Record:
    """Read a record; an unchanged file is read only once per process."""
    try:
        return _read_once(path, *_stamp(path))
    except OSError as error:  # a link to nothing, or removed since it was listed
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def _stamp(path: Path) -> tuple[int, int, int]:
    seen = path.stat()
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


@lru_cache(maxsize=50_000)
def _read_once(path: Path, mtime: int, size: int, inode: int) -> Record:
    try:
        record = Record.from_bytes(read_small(path), str(path))
    except OtherSchema:
        raise
    except UserError as error:
        raise UserError(f"{error}: {REDO}") from error
    if path.stem != record.cell.slug:
        raise UserError(f"{path}: is the record of another cell, {record.cell.slug}: {REDO}")
    return record


def read_predictions(path: Path, record: Record) -> Predictions:
    """Read a cell's predictions; UserError if the file does not match the digest in its record."""
    try:
        content = read_whole(path)
    except OSError as error:
        raise UserError(f"{path}: predictions cannot be read ({error.strerror}): {REDO}") from error
    except UserError as error:
        raise UserError(f"{error}: {REDO}") from error
    seen = (path, *_stamp(path), record.predictions)
    if seen not in _whole and digest(content) != record.predictions:
        raise UserError(f"{path}: damaged, its digest differs from the one in its record: {REDO}")
    _whole.add(seen)
    found = Predictions.from_bytes(content, record.scores.samples, str(path))
    if found.task.max(initial=0) >= len(record.cell.spec.tasks):
        raise UserError(f"{path}: has predictions for a task that its record does not name: {REDO}")
    return found


def read_json(path: Path) -> Any:
    return parse.from_json(read_small(path), str(path))


def read_small(path: Path) -> bytes:
    """The content of a small file: any file of a run but predictions."""
    try:
        return read_whole(path, most=MOST_TEXT)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
