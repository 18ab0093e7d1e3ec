"""Claims: locks that keep two processes from running the same cell."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tta_bench.files import open_own, read_whole
from tta_bench.records.cell import Cell
from tta_bench.records.folder import RunFolder

MOST_TRIES = 2**20  # bytes of a cell's notes


@contextmanager
def claim(run: RunFolder, cell: Cell) -> Iterator[bool]:
    """Claim a cell so that no other process runs it; False if another process holds it.

    The system releases the claim of a process that dies. A file system without locks gets lock files instead.
    """
    from filelock import FileLock, Timeout

    path = run.lock_file(cell.identity)
    lock = FileLock(path)
    with run.writing():
        path.parent.mkdir(exist_ok=True)
        with suppress(Timeout):  # an OSError, too
            lock.acquire(timeout=0)
        if lock.is_locked:
            with tempfile.TemporaryFile(dir=run.cells):
                pass  # after a write, NFS refreshes its listing of the folder: records of other hosts become visible
    if not lock.is_locked:
        yield False
        return
    try:
        yield True
    finally:
        if run.record_file(cell.slug).exists():
            # A process that locks the removed file finds the record, so the cell never runs twice.
            path.unlink(missing_ok=True)
            forget_tries(run, cell.identity)
        lock.release()


def note_try(run: RunFolder, identity: str, line: bytes) -> None:
    """Note who runs a cell."""
    with run.writing():
        run.claims.mkdir(exist_ok=True)
        with open_own(run.tries_file(identity), os.O_APPEND) as file:
            file.write(line + b"\n")


def tries(run: RunFolder, identity: str) -> list[bytes]:
    """The notes of processes that have claimed a cell since its last record."""
    try:
        return read_whole(run.tries_file(identity), MOST_TRIES).splitlines()
    except OSError:
        return []


def forget_tries(run: RunFolder, identity: str) -> None:
    with suppress(OSError):  # a folder of somebody else
        run.tries_file(identity).unlink(missing_ok=True)


def is_claimed(run: RunFolder, identity: str) -> bool:
    """Whether a process runs the cell with this identity."""
    try:
        return _is_locked(run.lock_file(identity))
    except OSError:  # missing or unreadable
        return False


def count_claimed(run: RunFolder) -> int:
    """How many cells processes are running; 0 if the folder cannot be written, which moving it aside reports."""
    count = 0
    for path in run.claims.glob("*.lock"):
        with suppress(OSError):
            count += _is_locked(path)
    return count


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
