"""The store: one file per finished cell in a run folder (folder.py), written atomically, by many processes at once."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tta_bench.checked import validate
from tta_bench.errors import UserError
from tta_bench.files import create_whole, folder_below, remove_leftovers, write_whole
from tta_bench.records.cell import Cell
from tta_bench.records.locks import Claims
from tta_bench.records.notes import Notes
from tta_bench.records.predictions import Predictions, digest
from tta_bench.records.quarantine import Quarantine, move_run
from tta_bench.records.reading import read_json, read_predictions, read_record
from tta_bench.records.record import Record


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json."""

    suite: str


class Store(Claims, Notes, Quarantine):
    """The records of one suite in one folder."""

    @classmethod
    def create(cls, folder: Path, suite: str) -> Store:
        """Open a folder for a suite's records, creating it if needed; several processes may do so at once."""
        store = cls(folder)
        store.refuse_unfit(suite)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            content = json.dumps(asdict(Manifest(suite)), indent=1) + "\n"
            is_new = create_whole(store.manifest, content.encode())
            store.cells.mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=store.cells):
                pass
            for place in (folder, *(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())):
                remove_leftovers(place)
        except OSError as error:
            raise UserError(
                f"output folder {folder} cannot be written: {error.strerror}: choose another --out"
            ) from error
        if not is_new:  # another process may have created it for another suite meanwhile
            store.refuse_unfit(suite)
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
        try:
            return validate.read(Manifest, read_json(self.manifest), str(self.manifest))
        except UserError as error:
            raise UserError(f"{error}: restore it, or start over with --fresh") from error

    def refuse_unfit(self, suite: str) -> None:
        """Refuse an unusable output folder before anything runs; changes nothing."""
        folder = self.folder
        if folder.is_dir():
            owner = self.read_manifest().suite if self.manifest.exists() else None
            if owner not in (None, suite):
                raise UserError(
                    f"output folder {folder} belongs to suite '{owner}', not '{suite}': choose another --out"
                )
            self.refuse_other_files()
            for place in self.written:
                folder_below(folder, place.name)
        elif folder.exists():
            raise UserError(f"output {folder} is a file, expected a folder: choose another --out")
        there = next((parent for parent in (folder, *folder.absolute().parents) if parent.exists()), Path())
        if not (there.is_dir() and os.access(there, os.W_OK)):
            raise UserError(f"output folder {folder} cannot be written ({there}): choose another --out")

    def refuse_other_files(self) -> None:
        """Refuse a folder that holds files, but no run."""
        if not self.folder.is_dir() or self.manifest.exists():
            return
        # A process that created the folder may have left a temporary file, whose name starts with a dot.
        if any(not path.name.startswith(f".{self.manifest.name}.") for path in self.folder.iterdir()):
            raise UserError(f"output folder {self.folder} holds other files and no manifest.json: choose another --out")

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
        path = self.record_file(cell.slug)
        return read_record(path) if path.exists() else None

    def find_all(self, method: str, stream: str, seed: int) -> list[Record]:
        """All records of a method on a stream with a seed, whatever else differs between them."""
        return [read_record(path) for path in sorted(self.cells.glob(f"{method}--{stream}--seed{seed}--*.json"))]

    def records(self) -> list[Record]:
        """All records: methods as in the newest command, tasks as in the newest of the commands with the most tasks."""
        tasks, methods = self._orders()

        def place(record: Record) -> tuple[int, int, int]:
            spec = record.cell.spec
            return _rank(spec.tasks[0], tasks), spec.seed, _rank(spec.label, methods)

        return sorted(self.by_key().values(), key=place)

    def by_key(self) -> dict[str, Record]:
        """All records by the key of their cell, in the order of their files."""
        return {record.cell.key: record for record in map(read_record, self.record_files())}

    def predictions(self, record: Record) -> Predictions:
        """A cell's predictions; UserError if the file does not match the digest in its record."""
        return read_predictions(self.prediction_file(record.cell), record)

    def set_aside(self) -> Path | None:
        """Move an old folder aside for a fresh start; deletes nothing. Refused while a process runs cells in it."""
        if not self.folder.exists():
            return None
        self.refuse_running()
        return move_run(self.folder)

    def _orders(self) -> tuple[list[str], list[str]]:
        """Names of tasks and methods: a trial on a few tasks moves no column, and the newest methods come first."""
        commands = self.past_commands()[::-1]
        tasks = [name for command in sorted(commands, key=lambda one: -len(one.tasks)) for name in command.tasks]
        methods = [name for command in commands for name in command.methods]
        return list(dict.fromkeys(tasks)), list(dict.fromkeys(methods))


def _rank(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)
