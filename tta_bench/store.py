"""A run folder: one file per finished cell, written whole or not at all. All file names are made here.

    <folder>/manifest.json           which suite this folder belongs to, and the commands that filled it
    <folder>/cells/<slug>.json       a record
    <folder>/cells/<slug>.npz        its per-sample predictions
    <folder>/report/…                tables made from the records
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tta_bench.cell import Cell
from tta_bench.errors import UserError
from tta_bench.record import Predictions, Record


class Store:
    """The records of one suite in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells = folder / "cells"
        self.report = folder / "report"
        self.manifest = folder / "manifest.json"

    @classmethod
    def create(cls, folder: Path, suite: str, *, fresh: bool = False) -> Store:
        """Open a folder for writing, making it if needed; it must belong to this suite and be writable.

        With `fresh` the folder will be set aside, so what is in it does not matter.
        """
        store = cls(folder)
        if folder.exists() and not folder.is_dir():
            raise UserError(f"output {folder} is a file, expected a folder: choose another --out")
        owner = store.read_manifest().get("suite") if store.manifest.exists() and not fresh else None
        if owner is not None and owner != suite:
            raise UserError(
                f"output folder {folder} belongs to suite '{owner}', not '{suite}': choose another --out"
            )
        if owner is None and not fresh and folder.exists() and any(folder.iterdir()):
            raise UserError(f"output folder {folder} holds other files and no manifest.json: choose another --out")
        try:
            store.cells.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=store.cells):
                pass
        except OSError as error:
            raise UserError(f"output folder {folder} cannot be written: {error.strerror}") from error
        return store

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open a folder that a run has filled."""
        store = cls(folder)
        if not store.manifest.is_file():
            raise UserError(f"{folder} is no run folder: it has no manifest.json (tta-bench run --out makes one)")
        store.read_manifest()
        return store

    def set_aside(self) -> Path | None:
        """Move an old folder away for a fresh start; nothing is deleted."""
        if not self.folder.exists():
            return None
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

    def read_manifest(self) -> dict[str, Any]:
        return _read_json(self.manifest, "restore it, or start over with --fresh")

    def note_command(self, suite: str, command: list[str]) -> None:
        """Remember in the manifest that a command filled this folder."""
        old = self.read_manifest() if self.manifest.exists() else {"suite": suite, "commands": []}
        entry = {"at": now(), "command": command}
        write_whole(self.manifest, _json({**old, "commands": [*old.get("commands", []), entry]}))

    def save(self, record: Record, predictions: Predictions | None) -> None:
        """Keep a record: predictions first, so that a record on disk always has them beside it."""
        if predictions is not None:
            buffer = BytesIO()
            np.savez_compressed(buffer, **vars(predictions))
            write_whole(self._path(record.cell, ".npz"), buffer.getvalue())
        write_whole(self._path(record.cell, ".json"), _json(record.to_json()))

    def find(self, cell: Cell) -> Record | None:
        """The record of this very cell, if it is there."""
        path = self._path(cell, ".json")
        return self._read(path) if path.exists() else None

    def records(self) -> Iterator[Record]:
        """All records, in the order of their names."""
        for path in sorted(self.cells.glob("*.json")):
            yield self._read(path)

    def predictions(self, cell: Cell) -> Predictions:
        path = self._path(cell, ".npz")
        try:
            with np.load(path) as arrays:
                return Predictions(**{name: arrays[name] for name in Predictions.__dataclass_fields__})
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise UserError(f"{path}: predictions cannot be read ({error}): delete it and its .json, run again") from error

    def _path(self, cell: Cell, suffix: str) -> Path:
        return self.cells / f"{cell.slug}{suffix}"

    def _read(self, path: Path) -> Record:
        advice = "delete it and run the same command again to redo this cell"
        try:
            return Record.from_json(_read_json(path, advice))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"{path}: damaged record ({error}): {advice}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(part).chmod(0o644)  # mkstemp makes private files
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def _read_json(path: Path, advice: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path}: damaged or unreadable ({error}): {advice}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: damaged (expected an object): {advice}")
    return content
