"""Claims: locks that keep two processes from running the same cell."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tta_bench.errors import UserError
from tta_bench.files import open_own, read_whole
from tta_bench.records.cell import Cell
from tta_bench.records.folder import RunFolder

MOST_TRIES = 2**20  # bytes of a cell's notes


@dataclass(frozen=True)
class Try:
    """The worker that started a cell."""

    job: str
    worker: int
    host: str


class Claims(RunFolder):
    """A run folder whose cells can be claimed."""

    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """Claim a cell so that no other process runs it; False if another process holds it.

        The system releases the claim of a process that dies. A file system without locks gets lock files instead.
        """
        from filelock import FileLock, Timeout

        path = self.lock_file(cell.identity)
        lock = FileLock(path)
        with self.writing():
            path.parent.mkdir(exist_ok=True)
            with suppress(Timeout):  # an OSError, too
                lock.acquire(timeout=0)
            if lock.is_locked:
                with tempfile.TemporaryFile(dir=self.cells):
                    pass  # after a write, NFS lists the folder again: records of other hosts become visible
        if not lock.is_locked:
            yield False
            return
        try:
            yield True
        finally:
            if self.record_file(cell.slug).exists():
                # A process that locks the removed file finds the record, so the cell never runs twice.
                path.unlink(missing_ok=True)
                self.forget_tries(cell.identity)
            lock.release()

    def note_try(self, identity: str, who: Try) -> None:
        """Note who runs a cell; its record removes the note."""
        with self.writing():
            self.claims.mkdir(exist_ok=True)
            with open_own(self.tries_file(identity), os.O_APPEND) as file:
                file.write(msgspec.json.encode(who) + b"\n")

    def tries(self, identity: str) -> list[Try]:
        """The workers that have started a cell since its last record, oldest first."""
        found = []
        with suppress(OSError):  # most cells have no such file
            for line in read_whole(self.tries_file(identity), MOST_TRIES).splitlines():
                with suppress(msgspec.MsgspecError, RecursionError):  # the disk was full, or a stranger wrote it
                    found.append(msgspec.json.decode(line, type=Try))
        return found

    def forget_tries(self, identity: str) -> None:
        with suppress(OSError):  # a folder of somebody else
            self.tries_file(identity).unlink(missing_ok=True)

    def is_claimed(self, identity: str) -> bool:
        """Whether a process runs the cell with this identity."""
        try:
            return _is_locked(self.lock_file(identity))
        except OSError:  # missing or unreadable
            return False

    def count_running(self) -> int:
        """How many cells processes are running in this folder; 0 in an unreadable one."""
        busy = 0
        for path in self.claims.glob("*.lock"):
            with suppress(OSError):
                busy += _is_locked(path)
        return busy

    def refuse_running(self) -> None:
        """Refuse a folder in which some process is running cells."""
        if busy := self.count_running():
            cells = f"{busy} cell{'s'[: busy > 1]}"
            raise UserError(f"another process is running {cells} in {self.folder}: stop it before --fresh")


def _is_locked(path: Path) -> bool:
    """Whether a process holds this lock; the system releases those of dead processes.

    Asked for hundreds of cells, so without a FileLock, which takes a hundred times as long. Where the system has no
    locks, FileLock takes the file itself for one.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that ask do not take each other for the holder
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
