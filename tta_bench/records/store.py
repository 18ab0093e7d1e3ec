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
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError
from tta_bench.files import now, write_whole
from tta_bench.records.cell import Cell
from tta_bench.records.record import Predictions, Record


class Store:
    """The records of one suite in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells = folder / "cells"
        self.report = folder / "report"
        self.manifest = folder / "manifest.json"

    @classmethod
    def create(cls, folder: Path, suite: str) -> Store:
        """Open a folder for a suite's records, making it if needed."""
        refuse_unfit(folder, suite)
        store = cls(folder)
        try:
            store.cells.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=store.cells):
                pass
            if not store.manifest.exists():
                write_whole(store.manifest, _json({"suite": suite}))
        except OSError as error:
            raise UserError(
                f"output folder {folder} cannot be written: {error.strerror}: choose another --out"
            ) from error
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

    def note_command(self, command: list[str], tasks: Sequence[str], methods: Sequence[str]) -> None:
        """Remember a command in the manifest, and the order of its tasks and methods for reports."""
        old = self.read_manifest()
        new = {
            **old,
            "tasks": list(dict.fromkeys([*tasks, *old.get("tasks", [])])),
            "methods": list(dict.fromkeys([*methods, *old.get("methods", [])])),
            "commands": [*old.get("commands", []), {"at": now(), "command": command}],
        }
        write_whole(self.manifest, _json(new))

    def note_warnings(self, found: Mapping[str, str]) -> None:
        """Keep what a reader of results with these weights must know; an empty sentence takes one back."""
        before = self.warnings()
        if found:
            before.pop("", None)  # an earlier version's, of whichever weights: they were looked at anew
        kept = {weights: told for weights, told in {**before, **found}.items() if told}
        write_whole(self.manifest, _json({**self.read_manifest(), "warnings": kept}))

    def warnings(self) -> dict[str, str]:
        """What a reader must know, by the hash of the weights that it is about."""
        noted = self.read_manifest().get("warnings", {})
        return {"": " ".join(noted)} if isinstance(noted, list) else dict(noted)  # a list: by earlier versions

    def save(self, record: Record, predictions: Predictions | None) -> None:
        """Keep a record: predictions first, so that a record on disk always has them beside it."""
        if predictions is not None:
            buffer = BytesIO()
            np.savez_compressed(buffer, **vars(predictions))
            write_whole(self.prediction_file(record.cell), buffer.getvalue())
        write_whole(self._path(record.cell, ".json"), _json(record.to_json()))

    def find(self, cell: Cell) -> Record | None:
        """The record of this very cell, if it is there."""
        path = self._path(cell, ".json")
        return self._read(path) if path.exists() else None

    def has_predictions(self, cell: Cell) -> bool:
        """Whether a cell's predictions lie there whole, as far as the file's end tells: a cut off one lacks it."""
        return is_zipfile(self.prediction_file(cell))

    def records(self) -> list[Record]:
        """All records, in the order of tasks and methods in which they were last asked for."""
        manifest = self.read_manifest()
        tasks, methods = manifest.get("tasks", []), manifest.get("methods", [])
        found = [self._read(path) for path in sorted(self.cells.glob("*.json"))]
        return sorted(found, key=lambda r: (_rank(r.cell.tasks[0], tasks), r.cell.seed, _rank(r.label, methods)))

    def predictions(self, cell: Cell) -> Predictions:
        """What a cell predicted for each image."""
        names = tuple(Predictions.__dataclass_fields__)
        return Predictions(**dict(zip(names, self.arrays(cell, *names), strict=True)))

    def arrays(self, cell: Cell, *names: str) -> list[NDArray[Any]]:
        """Some of a cell's per-image arrays: what is not asked for is not unpacked."""
        path = self.prediction_file(cell)
        try:
            with path.open("rb") as file, np.load(file) as arrays:
                return [arrays[name] for name in names]
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
            raise UserError(
                f"{path}: predictions cannot be read ({error}): delete it and its .json, run again"
            ) from error

    def prediction_file(self, cell: Cell) -> Path:
        return self._path(cell, ".npz")

    def _path(self, cell: Cell, suffix: str) -> Path:
        return self.cells / f"{cell.slug}{suffix}"

    def _read(self, path: Path) -> Record:
        advice = "delete it and run the same command again to redo this cell"
        try:
            return Record.from_json(_read_json(path, advice))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"{path}: damaged record ({error}): {advice}") from error


def refuse_unfit(folder: Path, suite: str) -> None:
    """Say what is wrong with an output folder before anything is done; leaves no trace."""
    if folder.is_dir():
        store = Store(folder)
        owner = store.read_manifest().get("suite") if store.manifest.exists() else None
        if owner not in (None, suite):
            raise UserError(f"output folder {folder} belongs to suite '{owner}', not '{suite}': choose another --out")
        if owner is None and any(folder.iterdir()):
            raise UserError(f"output folder {folder} holds other files and no manifest.json: choose another --out")
        if owner is not None:
            store.records()  # the closing report reads all: a damaged one is told now, not after the cells have run
    elif folder.exists():
        raise UserError(f"output {folder} is a file, expected a folder: choose another --out")
    there = next((parent for parent in (folder, *folder.absolute().parents) if parent.exists()), Path())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UserError(f"output folder {folder} cannot be written ({there}): choose another --out")


def _rank(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


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
