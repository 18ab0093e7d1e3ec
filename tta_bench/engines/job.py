"""The files of a job, in the run folder. All their names are defined here.

<folder>/jobs/<job>/job.json       the cells, in the order in which workers take them; written once
<folder>/jobs/<job>/handle.json    how the engine finds the job's workers
<folder>/jobs/<job>/cancelled      there if somebody has cancelled the job
<folder>/jobs/<job>/<index>.jsonl  the journal of one worker (journal.py)
<folder>/jobs/<job>/<index>.log    what it printed
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tta_bench.checked import parse, validate
from tta_bench.engines.journal import Life
from tta_bench.errors import UserError, some
from tta_bench.files import open_plain, read_whole, write_whole
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.site import Site

LOG_LINES = 5
LOG_BYTES = 10_000  # of its end that are looked at: a method may print gigabytes
MOST_WORKERS = 100_000


@dataclass(frozen=True)
class Expected:
    """What a cell's identity is for the coordinator: the same on all machines, or a worker refuses the cell."""

    key: str  # of the cell, without the device
    code: str
    weights: str
    images: str


@dataclass(frozen=True)
class Ticket:
    """A request for a cell, as a job hands it out."""

    spec: CellSpec
    cost: float  # seconds if earlier records tell, else relative to Source
    expected: Expected | None = None  # None: the worker is on the coordinator's machine


@dataclass(frozen=True)
class Job:
    """What the workers of a job do."""

    engine: str
    workers: int
    site: dict[str, Any]
    tickets: tuple[Ticket, ...]
    beside: tuple[str, ...] = ()  # other jobs of the same command: what they have finished is finished
    in_seconds: bool = False  # whether all costs are seconds
    warns: bool = False  # whether worker 0 first compares Source with its published row

    @property
    def place(self) -> Site:
        return Site.from_json(self.site)


class Handle(dict[str, Any]):
    """How an engine finds a job's workers; an entry that is not there is a damaged file, in one line."""

    def __init__(self, content: dict[str, Any], file: Path) -> None:
        super().__init__(content)
        self._file = file

    def __missing__(self, key: str) -> Any:
        raise UserError(f"{self._file}: damaged, has no '{key}': delete {self._file.parent}")


class JobFolder:
    """The files of one job."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self.path = store.jobs.absolute() / name

    @classmethod
    def create(cls, store: Store, job: Job) -> JobFolder:
        """Write the file of a new job."""
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-%f")
        folder = cls(store, f"{stamp}-{os.getpid()}")
        content = {**asdict(job), "tickets": [_ticket_json(ticket) for ticket in job.tickets]}
        try:
            write_whole(folder.path / "job.json", json.dumps(content).encode())
        except OSError as error:
            raise UserError(f"{folder.path} cannot be written: {error.strerror}: choose another --out") from error
        return folder

    @classmethod
    def all(cls, store: Store) -> list[JobFolder]:
        """The jobs of a run folder, oldest first."""
        return [cls(store, path.parent.name) for path in sorted(store.jobs.glob("*/handle.json"))]

    def read(self) -> Job:
        """UserError if there is no such job, or its file is damaged."""
        file = self.path / "job.json"
        try:
            if Path(self.name).name != self.name:  # a path to somewhere else
                raise FileNotFoundError
            content = parse.from_json(read_whole(file), str(file))
        except FileNotFoundError:
            jobs = sorted((path.parent.name for path in (self.store.folder / "jobs").glob("*/job.json")), reverse=True)
            known = some(jobs) or "none"
            raise UserError(f"{self.store.folder} has no job '{self.name}' (known: {known})") from None
        except OSError as error:
            raise UserError(f"{file}: cannot be read ({error.strerror})") from error
        return validate.read(Job, content, str(file))

    @property
    def handle(self) -> Handle:
        """The handle that the engine returned, with `engine`, `workers` and `device` of the job."""
        file = self.path / "handle.json"
        try:
            found = parse.from_json(read_whole(file), str(file))
        except OSError as error:
            raise UserError(f"{file}: cannot be read ({error.strerror})") from error
        if not isinstance(found, dict) or not isinstance(found.get("engine"), str):
            raise UserError(f"{file}: damaged, expected the name of an engine: delete {self.path}")
        workers = found.get("workers")
        if not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
            raise UserError(f"{file}: damaged, expected 1 to {MOST_WORKERS:,} workers: delete {self.path}")
        return Handle(found, file)

    def keep_handle(self, job: Job, handle: dict[str, Any]) -> None:
        content = {**handle, "engine": job.engine, "workers": job.workers, "device": job.site["device"]}
        write_whole(self.path / "handle.json", json.dumps(content).encode())

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody has ended the job on purpose: its workers are not replaced."""
        return (self.path / "cancelled").exists()

    def note_cancelled(self) -> None:
        (self.path / "cancelled").touch()

    def remove(self) -> None:
        """Delete the files of a job that no worker has seen."""
        shutil.rmtree(self.path, ignore_errors=True)

    def lives(self) -> list[Life]:
        """What the job's workers have written so far."""
        found = [Life(self.journal(index)) for index in range(self.handle["workers"])]
        for life in found:
            life.follow()
        return found

    def journal(self, index: int) -> Path:
        return self.path / f"{index}.jsonl"

    def log(self, index: int | str) -> Path:
        return self.path / f"{index}.log"

    def last_lines(self, index: int) -> str:
        """The last lines of a worker's log, in one line."""
        try:
            with open_plain(self.log(index)) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
                lines = file.read(LOG_BYTES).decode(errors="replace").splitlines()
        except (OSError, UserError):
            return ""
        return " / ".join(line.strip() for line in lines[-LOG_LINES:] if line.strip())


def _ticket_json(ticket: Ticket) -> dict[str, Any]:
    return {**asdict(ticket), "spec": ticket.spec.to_json()}
