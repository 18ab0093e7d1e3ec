"""Moves what is old or damaged aside; nothing is ever deleted or overwritten."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import count
from pathlib import Path

from tta_bench.errors import UserError
from tta_bench.records.cell import Cell
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


class Quarantine(RunFolder):
    """A run folder from which damaged files can be moved aside."""

    def set_damaged_aside(self) -> list[Path]:
        """Move damaged records and their predictions aside; returns their new paths.

        A record of another version is not damaged: it stays, and reading it raises OtherSchema.
        """
        moved = []
        for path in self.record_files():
            try:
                read_record(path)
            except OtherSchema:
                continue
            except UserError:
                moved += self._set_aside(path)
        return moved

    def set_cell_aside(self, cell: Cell) -> list[Path]:
        """Move a cell's record and predictions aside; returns their new paths."""
        return self._set_aside(self.record_file(cell.slug))

    def _set_aside(self, record: Path) -> list[Path]:
        moved = []
        with self.writing():
            self.damaged.mkdir(exist_ok=True)
            for path in (record, record.with_suffix(".npy")):
                names = (self.damaged / (path.name if number == 0 else f"{path.name}.{number}") for number in count())
                if path.exists():
                    moved.append(path.rename(next(name for name in names if not name.exists())))
        return moved
