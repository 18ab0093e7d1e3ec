"""Moves what is old or damaged aside; nothing is ever deleted or overwritten."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import count
from pathlib import Path

from tta_bench.errors import UserError
from tta_bench.records.folder import RunFolder
from tta_bench.records.reading import read_record
from tta_bench.records.record import OtherSchema


def move_run(folder: Path) -> Path:
    """Rename a run folder for a fresh start; returns its new path."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    target = folder.with_name(f"{folder.name}.old-{stamp}")
    number = 1
    while target.exists():
        number += 1
        target = folder.with_name(f"{folder.name}.old-{stamp}-{number}")
    try:
        folder.rename(target)
    except OSError as error:
        raise UserError(f"{folder} cannot be moved aside to {target}: {error.strerror}") from error
    return target


def move_damaged(run: RunFolder) -> list[Path]:
    """Move damaged records and their predictions aside; returns their new paths.

    A record of another version is not damaged: it stays, and reading it raises OtherSchema.
    """
    moved = []
    for path in run.record_files():
        try:
            read_record(path)
        except OtherSchema:
            continue
        except UserError:
            moved += move_cell(run, path)
    return moved


def move_cell(run: RunFolder, record: Path) -> list[Path]:
    """Move the file of a record and its predictions aside; returns their new paths."""
    moved = []
    with run.writing():
        run.damaged.mkdir(exist_ok=True)
        for path in (record, record.with_suffix(".npy")):
            names = (run.damaged / (path.name if number == 0 else f"{path.name}.{number}") for number in count())
            if path.exists():
                moved.append(path.rename(next(name for name in names if not name.exists())))
    return moved
