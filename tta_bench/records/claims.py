"""Claims: locks that keep two processes from running the same cell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tta_bench.records.cell import Cell
from tta_bench.records.folder import RunFolder


@contextmanager
def claim(run: RunFolder, cell: Cell) -> Iterator[bool]:
    """Claim a cell so that no other process runs it; False if another process holds it.

    The system releases the claim of a process that dies. A file system without locks gets lock files instead.
    """
    from filelock import FileLock, Timeout

    path = run.lock_file(cell.key)
    lock = FileLock(path)
    with run.writing():
        path.parent.mkdir(exist_ok=True)
        with suppress(Timeout):  # an OSError, too
            lock.acquire(timeout=0)
    if not lock.is_locked:
        yield False
        return
    try:
        yield True
    finally:
        if run.record_file(cell.slug).exists():
            # A process that locks the removed file finds the record, so the cell never runs twice.
            path.unlink(missing_ok=True)
        lock.release()


def is_claimed(run: RunFolder, key: str) -> bool:
    """Whether a process runs the cell with this key."""
    path = run.lock_file(key)
    return path.exists() and _is_locked(path)


def count_claimed(run: RunFolder) -> int:
    """How many cells processes are running; 0 if the folder cannot be written, which moving it aside reports."""
    count = 0
    for path in run.claims.glob("*.lock"):
        with suppress(OSError):
            count += _is_locked(path)
    return count


def _is_locked(path: Path) -> bool:
    """Whether a process holds this lock; the system releases those of dead processes."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
