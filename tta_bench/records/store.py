"""The store: one file per finished cell in a run folder (folder.py), written atomically, by many processes at once."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tta_bench.errors import UserError
from tta_bench.files import now, remove_leftovers, write_whole
from tta_bench.records import locks, notes, quarantine
from tta_bench.records.cell import Cell
from tta_bench.records.folder import RunFolder
from tta_bench.records.notes import Command, Manifest
from tta_bench.records.output import refuse_unfit
from tta_bench.records.predictions import Predictions, digest
from tta_bench.records.reading import read_predictions, read_record
from tta_bench.records.record import Record


class Store(RunFolder):
    """The records of one suite in one folder."""

    @classmethod
    def create(cls, folder: Path, suite: str) -> Store:
        """Open a folder for a suite's records, creating it if needed; several processes may do so at once."""
        refuse_unfit(folder, suite)
        store = cls(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            notes.create_manifest(store, Manifest(suite))
            store.cells.mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=store.cells):
                pass
            for place in (folder, *(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())):
                remove_leftovers(place)
        except OSError as error:
            raise UserError(
                f"output folder {folder} cannot be written: {error.strerror}: choose another --out"
            ) from error
        refuse_unfit(folder, suite)  # another process may have created it for another suite meanwhile
        return store

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open an existing run folder."""
        store = cls(folder)
        if not store.manifest.is_file():
            raise UserError(f"{folder} is not a run folder: it has no manifest.json (tta-bench run --out makes one)")
        store.read_manifest()
        return store

    def read_manifest(self) -> Manifest:
        return notes.read_manifest(self)

    def save(self, record: Record, predictions: Predictions | None) -> Record:
        """Save a record; predictions come first, so that every record on disk has them."""
        with self.writing():
            if predictions is not None:
                content = predictions.to_bytes()
                write_whole(self.prediction_file(record.cell), content)
                record = replace(record, predictions=digest(content))
            write_whole(self.record_file(record.cell.slug), record.to_bytes())
        return record

    def find(self, cell: Cell) -> Record | None:
        """The record of exactly this cell, if it exists."""
        return self.find_slug(cell.slug)

    def find_slug(self, slug: str) -> Record | None:
        """The record of the cell with this slug, if it exists."""
        path = self.record_file(slug)
        return read_record(path) if path.exists() else None

    def find_all(self, method: str, stream: str, seed: int) -> list[Record]:
        """All records of a method on a stream with a seed, whatever else differs between them."""
        return [read_record(path) for path in sorted(self.cells.glob(f"{method}--{stream}--seed{seed}--*.json"))]

    def records(self) -> list[Record]:
        """All records, in the order of tasks and methods of the newest command."""
        tasks, methods = self._orders()
        found = [read_record(path) for path in self.record_files()]

        def place(record: Record) -> tuple[int, int, int]:
            spec = record.cell.spec
            return _rank(spec.tasks[0], tasks), spec.seed, _rank(spec.label, methods)

        return sorted(found, key=place)

    def by_key(self) -> dict[str, Record]:
        """All records by the key of their cell."""
        return {record.cell.key: record for record in self.records()}

    def predictions(self, record: Record) -> Predictions:
        """A cell's predictions; UserError if the file does not match the digest in its record."""
        return read_predictions(self.prediction_file(record.cell), record)

    def note_command(
        self,
        command: list[str],
        tasks: Sequence[str],
        methods: Sequence[str],
        chosen: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Save a command, the order of its tasks and methods for reports, how settings were chosen, and its options."""
        rows = tuple(tasks), tuple(methods), dict(chosen or {}), dict(options or {})
        notes.write_command(self, Command(now(), tuple(command), *rows))

    def past_commands(self) -> list[Command]:
        """The commands that ran in this folder, oldest first."""
        return notes.read_commands(self)

    def note_warnings(self, found: Mapping[str, str]) -> None:
        """Save a warning for each of these weights; an empty text removes the warning."""
        notes.write_warnings(self, found)

    def warnings(self) -> dict[str, str]:
        """The saved warnings, by the hash of the weights."""
        return notes.read_warnings(self)

    def claim(self, cell: Cell) -> AbstractContextManager[bool]:
        """Claim a cell so that no other process runs it; False if another process holds it."""
        return locks.claim(self, cell)

    def is_claimed(self, identity: str) -> bool:
        """Whether a process runs the cell with this identity."""
        return locks.is_claimed(self, identity)

    def note_try(self, identity: str, line: bytes) -> None:
        """Note who runs a cell; its record removes the note."""
        locks.note_try(self, identity, line)

    def tries(self, identity: str) -> list[bytes]:
        """The notes of processes that have claimed a cell since its last record."""
        return locks.tries(self, identity)

    def forget_tries(self, identity: str) -> None:
        locks.forget_tries(self, identity)

    def refuse_running(self) -> None:
        """Refuse a folder in which some process is running cells."""
        if busy := locks.count_claimed(self):
            cells = f"{busy} cell{'s'[: busy > 1]}"
            raise UserError(f"another process is running {cells} in {self.folder}: stop it before --fresh")

    def set_aside(self) -> Path | None:
        """Move an old folder aside for a fresh start; deletes nothing. Refused while a process runs cells in it."""
        if not self.folder.exists():
            return None
        self.refuse_running()
        return quarantine.move_run(self.folder)

    def set_damaged_aside(self) -> list[Path]:
        """Move damaged records and their predictions aside; returns their new paths."""
        return quarantine.move_damaged(self)

    def set_cell_aside(self, cell: Cell) -> list[Path]:
        """Move a cell's record and predictions aside; returns their new paths."""
        return quarantine.move_cell(self, self.record_file(cell.slug))

    def _orders(self) -> tuple[list[str], list[str]]:
        """Names of tasks and methods, those of the newest command first."""
        commands = self.past_commands()[::-1]
        tasks = [name for command in commands for name in command.tasks]
        methods = [name for command in commands for name in command.methods]
        return list(dict.fromkeys(tasks)), list(dict.fromkeys(methods))


def _rank(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)
