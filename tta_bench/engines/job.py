"""Jobs: what the workers of an engine are given, and the folder in which they find it (records/folder.py)."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from tta_bench.checked import parse, validate
from tta_bench.errors import UserError, some
from tta_bench.files import open_plain, read_whole, write_whole
from tta_bench.records.cell import Cell
from tta_bench.records.folder import JobFiles
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.site import Site

LOG_LINES = 5
LOG_BYTES = 10_000  # of its end that are looked at: a method may print gigabytes
MOST_WORKERS = 100_000

Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}\\Z", title="a hash of 64 hexadecimal digits")]  # also a file's name


@dataclass(frozen=True)
class Entry:
    """A cell of a job. A worker refuses it on a machine where it would be another cell."""

    spec: CellSpec
    cost: float  # seconds if earlier records have them, else relative to Source
    identity: Hash  # of the cell: its key without the device
    hashes: dict[str, str]  # of code, weights and images, to say what differs
    before: str = ""  # when the record was finished that this cell replaces, since it failed or is damaged

    def require(self, cell: Cell) -> None:
        """Refuse a cell that is not the expected one, in one line."""
        if self.identity == cell.identity:
            return
        what = " and ".join(name for name, value in cell.hashes.items() if self.hashes.get(name) != value) or "settings"
        raise UserError(
            f"{socket.gethostname()} has other {what} than the machine of `tta-bench run`: "
            "install the same versions and data there"
        )


@dataclass(frozen=True)
class Job:
    """What the workers of a job do."""

    engine: str
    workers: int
    site: dict[str, Any]
    cells: tuple[Entry, ...]
    retries: int = 2
    in_seconds: bool = False  # whether all costs are seconds
    warns: bool = False  # whether worker 0 first compares Source with its published row

    @property
    def at(self) -> Site:
        return Site(**self.site)


class Handle(dict[str, Any]):
    """How an engine finds a job's workers; UserError for a missing entry."""

    def __init__(self, content: dict[str, Any], file: Path) -> None:
        super().__init__(content)
        self._file = file

    def __missing__(self, key: str) -> Any:
        raise UserError(f"{self._file}: damaged, has no '{key}': delete {self._file.parent}")


class JobFolder(JobFiles):
    """One job of a run folder."""

    def __init__(self, store: Store, name: str = "") -> None:
        """Without a name it gets a new, unique one."""
        self.store = store
        self.name = name or f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S-%f}-{os.getpid()}"
        super().__init__(store, self.name)

    @classmethod
    def create(cls, store: Store, job: Job, name: str = "") -> JobFolder:
        """Write the file of a new job."""
        folder = cls(store, name)
        try:
            write_whole(folder.job_file, json.dumps(asdict(job), default=str).encode())  # paths are text there
        except OSError as error:
            raise UserError(f"{folder.path} cannot be written: {error.strerror}: choose another --out") from error
        return folder

    @classmethod
    def all(cls, store: Store) -> list[JobFolder]:
        """The jobs of a run folder, oldest first."""
        return [cls(store, path.parent.name) for path in sorted(store.jobs.glob("*/handle.json"))]

    def read(self) -> Job:
        """UserError if there is no such job, or its file is damaged."""
        file = self.job_file
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
        file = self.handle_file
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
        content = {**handle, "engine": job.engine, "workers": job.workers}
        write_whole(self.handle_file, json.dumps(content).encode())

    def last_lines(self, index: int) -> str:
        """The last lines of a worker's log, in one line."""
        try:
            with open_plain(self.log(index)) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
                lines = file.read(LOG_BYTES).decode(errors="replace").splitlines()
        except (OSError, UserError):
            return ""
        return " / ".join(line.strip() for line in lines[-LOG_LINES:] if line.strip())
