"""The paths of a run folder. All file names are defined here.

<folder>/manifest.json            the suite that this folder belongs to; written once
<folder>/cells/<slug>.json        a record
<folder>/cells/<slug>.npy         its per-sample predictions
<folder>/damaged/…                files that failed their digests, moved aside
<folder>/commands/<when>.json     a command that ran in this folder, and the order of its rows
<folder>/warnings/<weights>.txt   a warning for readers of results with these weights
<folder>/claims/<identity>.lock   a cell that some process is running
<folder>/claims/<identity>.tries  workers that have started a cell without a record, one per line
<folder>/keys/<process>.jsonl     keys of cells, to find what is left without torch; safe to delete
<folder>/prepared/<digest>.…      what methods learned from source images; safe to delete
<folder>/jobs/<job>/job.json      the cells of a job, in the order in which workers take them; written once
<folder>/jobs/<job>/handle.json   how the engine finds the job's workers
<folder>/jobs/<job>/cancelled     there if somebody has cancelled the job
<folder>/jobs/<job>/<index>.json  what one worker does (engines/alive.py)
<folder>/jobs/<job>/<index>.log   what it printed
<folder>/report/…                 tables made from the records

Many processes may share one folder: every file has one writer and is not changed once written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from tta_bench.errors import RunStopped, UserError
from tta_bench.files import folder_below, process_name
from tta_bench.records.cell import Cell


class RunFolder:
    """The files of one run; making one changes nothing on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells = folder / "cells"
        self.claims = folder / "claims"
        self.commands = folder / "commands"
        self.damaged = folder / "damaged"
        self.jobs = folder / "jobs"
        self.keys = folder / "keys"
        self.manifest = folder / "manifest.json"
        self.prepared = folder / "prepared"
        self.warning_files = folder / "warnings"

    @property
    def written(self) -> tuple[Path, ...]:
        """The folders that a run writes into."""
        return (
            self.cells,
            self.claims,
            self.commands,
            self.damaged,
            self.jobs,
            self.keys,
            self.prepared,
            self.warning_files,
        )

    @property
    def report(self) -> Path:
        """The folder for tables; UserError if it leads elsewhere."""
        return folder_below(self.folder, "report")

    def record_names(self) -> list[str]:
        """The names of the files of all records, readable or not, in any order."""
        try:
            names = os.listdir(self.cells)  # noqa: PTH208 (paths take five times as long)
        except FileNotFoundError:
            return []
        return [name for name in names if name.endswith(".json") and not name.startswith(".")]

    def record_files(self) -> list[Path]:
        """The files of all records, readable or not."""
        return [self.cells / name for name in sorted(self.record_names())]

    def record_file(self, slug: str) -> Path:
        return self.cells / f"{slug}.json"

    def prediction_file(self, cell: Cell) -> Path:
        return self.cells / f"{cell.slug}.npy"

    def lock_file(self, identity: str) -> Path:
        return self.claims / f"{identity}.lock"

    def tries_file(self, identity: str) -> Path:
        return self.claims / f"{identity}.tries"

    def new_command_file(self) -> Path:
        """A name that no other command has, later in the alphabet than those of earlier commands."""
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-%f")
        return self.commands / f"{stamp}-{process_name()}.json"

    def warning_file(self, weights: str) -> Path:
        return self.warning_files / f"{re.sub(r'[^0-9A-Za-z]', '-', weights)}.txt"

    @contextmanager
    def writing(self) -> Iterator[None]:
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


class JobFiles:
    """The files of one job; making one changes nothing on disk."""

    def __init__(self, folder: RunFolder, name: str) -> None:
        self.path = folder.jobs.absolute() / name
        self.job_file = self.path / "job.json"
        self.handle_file = self.path / "handle.json"
        self.cancelled_file = self.path / "cancelled"

    def life_file(self, index: int) -> Path:
        return self.path / f"{index}.json"

    def log(self, index: int | str) -> Path:
        return self.path / f"{index}.log"
