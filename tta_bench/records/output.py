"""The check of an output folder, before anything runs."""

from __future__ import annotations

import os
from pathlib import Path

from tta_bench.errors import UserError
from tta_bench.files import folder_below
from tta_bench.records.folder import RunFolder
from tta_bench.records.notes import Notes


def refuse_unfit(folder: Path, suite: str) -> None:
    """Refuse an unusable output folder before anything runs; changes nothing."""
    if folder.is_dir():
        run = Notes(folder)
        owner = run.read_manifest().suite if run.manifest.exists() else None
        if owner not in (None, suite):
            raise UserError(f"output folder {folder} belongs to suite '{owner}', not '{suite}': choose another --out")
        refuse_other_files(folder)
        for place in run.written:
            folder_below(folder, place.name)
    elif folder.exists():
        raise UserError(f"output {folder} is a file, expected a folder: choose another --out")
    there = next((parent for parent in (folder, *folder.absolute().parents) if parent.exists()), Path())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UserError(f"output folder {folder} cannot be written ({there}): choose another --out")


def refuse_other_files(folder: Path) -> None:
    """Refuse a folder that holds files, but no run."""
    run = RunFolder(folder)
    if not folder.is_dir() or run.manifest.exists():
        return
    # A process that created the folder may have left a temporary file, whose name starts with a dot.
    if any(not path.name.startswith(f".{run.manifest.name}.") for path in folder.iterdir()):
        raise UserError(f"output folder {folder} holds other files and no manifest.json: choose another --out")
