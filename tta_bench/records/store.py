"""A run folder: one file per finished cell, written atomically. All file names are defined here.

<folder>/manifest.json            the suite that this folder belongs to; written once
<folder>/cells/<slug>.json        a record
<folder>/cells/<slug>.npy         its per-sample predictions
<folder>/damaged/…                files that failed their digests, moved aside
<folder>/commands/<when>.json     a command that ran in this folder, and the order of its rows
<folder>/warnings/<weights>.txt   a warning for readers of results with these weights
<folder>/claims/<key>.lock        a cell that some process is running
<folder>/known/<process>.jsonl    keys of cells, to list what is left without building anything; safe to delete
<folder>/prepared/<digest>.…      what methods learned from source images; safe to delete
<folder>/jobs/<job>/…             what engines are given, and the progress of their workers (engines/job.py)
<folder>/report/…                 tables made from the records

Many processes may share one folder: every file has one writer and is not changed once written.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from tta_bench.checked import parse, validate
from tta_bench.errors import RunStopped, UserError
from tta_bench.files import create_whole, folder_below, now, process_name, read_whole, remove_leftovers, write_whole
from tta_bench.records.cell import Cell
from tta_bench.records.predictions import Predictions, digest
from tta_bench.records.record import OtherSchema, Record

MOST_TEXT = 2**25  # bytes; a record of a million batches has fewer
REDO = "the same `tta-bench run` moves it aside and runs this cell again"


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json."""

    suite: str


@dataclass(frozen=True)
class Command:
    """A command that ran in a folder."""

    at: str
    command: tuple[str, ...]
    tasks: tuple[str, ...]  # in the order of the columns
    methods: tuple[str, ...]  # in the order of the rows
    chosen: dict[str, str] = field(default_factory=dict)  # by row label: a sentence on how its settings were chosen


class Store:
    """The records of one suite in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells = folder / "cells"
        self.claims = folder / "claims"
        self.commands = folder / "commands"
        self.known = folder / "known"
        self.prepared = folder / "prepared"
        self.manifest = folder / "manifest.json"

    @classmethod
    def create(cls, folder: Path, suite: str) -> Store:
        """Open a folder for a suite's records, creating it if needed; several processes may do so at once."""
        refuse_unfit(folder, suite)
        store = cls(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            create_whole(store.manifest, _json({"suite": suite}))
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

    @property
    def report(self) -> Path:
        """The folder for tables; UserError if it leads elsewhere."""
        return folder_below(self.folder, "report")

    def refuse_running(self) -> None:
        """Refuse a folder in which some process is running cells."""
        if busy := sum(map(_is_locked, self.claims.glob("*.lock"))):
            cells = f"{busy} cell{'s'[: busy > 1]}"
            raise UserError(f"another process is running {cells} in {self.folder}: stop it before --fresh")

    def set_aside(self) -> Path | None:
        """Move an old folder aside for a fresh start; deletes nothing. Refused while a process runs cells in it."""
        if not self.folder.exists():
            return None
        self.refuse_running()
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        target = self.folder.with_name(f"{self.folder.name}.old-{stamp}")
        number = 1
        while target.exists():
            number += 1
            target = self.folder.with_name(f"{self.folder.name}.old-{stamp}-{number}")
        try:
            self.folder.rename(target)
        except OSError as error:
            raise UserError(f"{self.folder} cannot be moved aside to {target}: {error.strerror}") from error
        return target

    def read_manifest(self) -> Manifest:
        try:
            return validate.read(Manifest, _read_json(self.manifest), str(self.manifest))
        except UserError as error:
            raise UserError(f"{error}: restore it, or start over with --fresh") from error

    def note_command(
        self,
        command: list[str],
        tasks: Sequence[str],
        methods: Sequence[str],
        chosen: Mapping[str, str] | None = None,
    ) -> None:
        """Save a command, the order of its tasks and methods for reports, and how settings were chosen."""
        content = Command(now(), tuple(command), tuple(tasks), tuple(methods), dict(chosen or {}))
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-%f")
        with self._writing():
            write_whole(self.commands / f"{stamp}-{process_name()}.json", _json(asdict(content)))

    def past_commands(self) -> list[Command]:
        """The commands that ran in this folder, oldest first."""
        try:
            files = sorted(self.commands.glob("[!.]*.json"))
            return [validate.read(Command, _read_json(file), str(file)) for file in files]
        except UserError as error:
            raise UserError(f"{error}: delete it, only the order of rows depends on it") from error

    def note_warnings(self, found: Mapping[str, str]) -> None:
        """Save a warning for each of these weights; an empty text removes the warning."""
        for weights, warning in found.items():
            file = self._warning_file(weights)
            with self._writing():
                if warning:
                    write_whole(file, f"{warning}\n".encode())
                else:
                    file.unlink(missing_ok=True)

    def warnings(self) -> dict[str, str]:
        """The saved warnings, by the hash of the weights."""
        files = sorted((self.folder / "warnings").glob("[!.]*.txt"))
        return {file.stem: _read(file).decode(errors="replace").strip() for file in files}

    def save(self, record: Record, predictions: Predictions | None) -> Record:
        """Save a record; predictions come first, so that every record on disk has them."""
        with self._writing():
            if predictions is not None:
                content = predictions.to_bytes()
                write_whole(self.prediction_file(record.cell), content)
                record = replace(record, predictions=digest(content))
            write_whole(self._path(record.cell, ".json"), record.to_bytes())
        return record

    def find(self, cell: Cell) -> Record | None:
        """The record of exactly this cell, if it exists."""
        path = self._path(cell, ".json")
        return read_record(path) if path.exists() else None

    def find_slug(self, slug: str) -> Record | None:
        """The record of the cell with this slug, if it exists."""
        path = self.cells / f"{slug}.json"
        return read_record(path) if path.exists() else None

    def find_all(self, method: str, stream: str, seed: int) -> list[Record]:
        """All records of a method on a stream with a seed, whatever else differs between them."""
        return [read_record(path) for path in sorted(self.cells.glob(f"{method}--{stream}--seed{seed}--*.json"))]

    def records(self) -> list[Record]:
        """All records, in the order of tasks and methods of the newest command."""
        tasks, methods = self._orders()
        found = [read_record(path) for path in self.record_files()]
        return sorted(found, key=lambda r: (_rank(r.cell.tasks[0], tasks), r.cell.seed, _rank(r.label, methods)))

    def by_key(self) -> dict[str, Record]:
        """All records by the key of their cell."""
        return {record.cell.key: record for record in self.records()}

    def predictions(self, record: Record) -> Predictions:
        """A cell's predictions; UserError if the file does not match the digest in its record."""
        path = self.prediction_file(record.cell)
        try:
            content = read_whole(path)
        except OSError as error:
            raise UserError(f"{path}: predictions cannot be read ({error.strerror}): {REDO}") from error
        except UserError as error:
            raise UserError(f"{error}: {REDO}") from error
        if digest(content) != record.predictions:
            raise UserError(f"{path}: damaged, its digest differs from the one in its record: {REDO}")
        found = Predictions.from_bytes(content, record.samples, str(path))
        if found.task.max(initial=0) >= len(record.cell.tasks):
            raise UserError(f"{path}: has predictions for a task that its record does not name: {REDO}")
        return found

    def prediction_file(self, cell: Cell) -> Path:
        return self._path(cell, ".npy")

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
                moved += self._aside(path)
        return moved

    def set_cell_aside(self, cell: Cell) -> list[Path]:
        """Move a cell's record and predictions aside; returns their new paths."""
        return self._aside(self._path(cell, ".json"))

    def _aside(self, record: Path) -> list[Path]:
        home = self.folder / "damaged"
        moved = []
        with self._writing():
            home.mkdir(exist_ok=True)
            for path in (record, record.with_suffix(".npy")):
                names = (home / (path.name if number == 0 else f"{path.name}.{number}") for number in count())
                if path.exists():
                    moved.append(path.rename(next(name for name in names if not name.exists())))
        return moved

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Stop the run where the folder cannot be written; never create it again without its manifest."""
        if not self.manifest.exists():
            raise UserError(
                f"{self.folder} was moved or deleted while a run was writing to it: "
                f"move it back, then run the same command again to resume"
            )
        try:
            yield
        except OSError as error:
            raise RunStopped(f"{self.folder} cannot be written ({error.strerror})") from error

    def record_files(self) -> list[Path]:
        """The files of all records, readable or not."""
        try:
            names = sorted(os.listdir(self.cells))  # noqa: PTH208 (paths take five times as long to sort)
        except FileNotFoundError:
            return []
        return [self.cells / name for name in names if name.endswith(".json") and not name.startswith(".")]

    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """Claim a cell so that no other process runs it; False if another process holds it.

        The system releases the claim of a process that dies. A file system without locks gets lock files instead.
        """
        from filelock import FileLock, Timeout

        path = self.claims / f"{cell.key}.lock"
        lock = FileLock(path)
        with self._writing():
            path.parent.mkdir(exist_ok=True)
            with suppress(Timeout):  # an OSError, too
                lock.acquire(timeout=0)
        if not lock.is_locked:
            yield False
            return
        try:
            yield True
        finally:
            if self._path(cell, ".json").exists():
                # A process that locks the removed file finds the record, so the cell never runs twice.
                path.unlink(missing_ok=True)
            lock.release()

    def is_claimed(self, key: str) -> bool:
        """Whether a process runs the cell with this key."""
        from filelock import FileLock, Timeout

        path = self.folder / "claims" / f"{key}.lock"
        if not path.exists():
            return False
        try:
            with FileLock(path, timeout=0):
                return False
        except Timeout:
            return True

    def _orders(self) -> tuple[list[str], list[str]]:
        """Names of tasks and methods, those of the newest command first."""
        commands = self.past_commands()[::-1]
        tasks = [name for command in commands for name in command.tasks]
        methods = [name for command in commands for name in command.methods]
        return list(dict.fromkeys(tasks)), list(dict.fromkeys(methods))

    def _warning_file(self, weights: str) -> Path:
        return self.folder / "warnings" / f"{re.sub(r'[^0-9A-Za-z]', '-', weights)}.txt"

    def _path(self, cell: Cell, suffix: str) -> Path:
        return self.cells / f"{cell.slug}{suffix}"


def read_record(path: Path) -> Record:
    """Read a record; an unchanged file is read only once per process."""
    try:
        seen = path.stat()
    except OSError as error:  # a link to nothing, or removed since it was listed
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    return _read_once(path, seen.st_mtime_ns, seen.st_size, seen.st_ino)


@lru_cache(maxsize=50_000)
def _read_once(path: Path, mtime: int, size: int, inode: int) -> Record:
    try:
        record = Record.from_bytes(_read(path), str(path))
    except OtherSchema:
        raise
    except UserError as error:
        raise UserError(f"{error}: {REDO}") from error
    if path.stem != record.cell.slug:
        raise UserError(f"{path}: is the record of another cell, {record.cell.slug}: {REDO}")
    return record


def refuse_unfit(folder: Path, suite: str) -> None:
    """Refuse an unusable output folder before anything runs; changes nothing."""
    if folder.is_dir():
        store = Store(folder)
        owner = store.read_manifest().suite if store.manifest.exists() else None
        if owner not in (None, suite):
            raise UserError(f"output folder {folder} belongs to suite '{owner}', not '{suite}': choose another --out")
        refuse_other_files(folder)
    elif folder.exists():
        raise UserError(f"output {folder} is a file, expected a folder: choose another --out")
    there = next((parent for parent in (folder, *folder.absolute().parents) if parent.exists()), Path())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UserError(f"output folder {folder} cannot be written ({there}): choose another --out")


def refuse_other_files(folder: Path) -> None:
    """Refuse a folder that holds files, but no run."""
    if not folder.is_dir() or Store(folder).manifest.exists():
        return
    # A process that created the folder may have left a temporary file, whose name starts with a dot.
    if any(not path.name.startswith(".manifest.json.") for path in folder.iterdir()):
        raise UserError(f"output folder {folder} holds other files and no manifest.json: choose another --out")


def _is_locked(path: Path) -> bool:
    """Whether a process holds this lock; the system releases those of dead processes."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # the folder cannot be written, which moving it aside reports
        return False


def _rank(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def _read_json(path: Path) -> Any:
    return parse.from_json(_read(path), str(path))


def _read(path: Path) -> bytes:
    """The content of a small file: everything here but predictions."""
    try:
        return read_whole(path, most=MOST_TEXT)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
