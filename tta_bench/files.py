"""Atomic file writes."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import IO

from tta_bench.errors import UserError

MOST_BYTES = 2**28  # of a file that is read whole; the predictions for 11 million images

OnHashed = Callable[[int, int], None]  # bytes hashed, of how many


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically: a crash leaves the old one or the new one, never a part."""
    with open_whole(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Replace a text file that the user asked for; UserError if it cannot be written."""
    with writing(path):
        write_whole(path, text.encode())


@contextmanager
def writing(what: object, advice: str = "") -> Iterator[None]:
    """Any OSError in this block becomes a UserError: `what` cannot be written, why, and what to do."""
    try:
        yield
    except OSError as error:
        raise cannot_write(what, error, advice) from error


def cannot_write(what: object, error: OSError, advice: str = "") -> UserError:
    """One line for a full disk, a missing permission and the like."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = ": make room and run the same command again"
    return UserError(f"{what} cannot be written ({error.strerror or error}){advice}")


def refuse_unwritable(path: Path) -> None:
    """Refuse a file that cannot be written before time is spent on its content. Creates its folder."""
    if path.is_dir():
        raise UserError(f"{path} is a folder, expected a file")
    with writing(path, ": choose another file"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass


@contextmanager
def open_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that replaces `path` at the end of the block; after an exception, `path` is as it was."""
    with _temporary(path) as part:
        with _durable(part) as file:
            yield file
        part.replace(path)


def create_whole(path: Path, content: bytes) -> bool:
    """Create a file atomically; False if it exists. If several processes try, one succeeds."""
    with _temporary(path) as part:
        with _durable(part) as file:
            file.write(content)
        try:
            os.link(part, path)
        except FileExistsError:
            return False
    return True


def read_whole(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a plain file; a pipe, a device, a folder or a huge file is a UserError, never waited for.

    A file that cannot be opened raises OSError.
    """
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise UserError(f"{path}: is {size:,} bytes long, expected at most {most:,}")
        return file.read(size)


@contextmanager
def open_plain(path: Path) -> Iterator[IO[bytes]]:
    """A plain file to read; a pipe, a device or a folder is a UserError, never waited for."""
    # Opening a pipe without a writer would wait for one; opening a terminal could make it ours.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UserError(f"{path}: expected a plain file")
        with open(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)


def open_own(path: Path, how: int = 0) -> IO[bytes]:
    """A plain file to write over or, with O_APPEND, to add to; never another one through a link, never a pipe."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | how, 0o666)
    return open(handle, "wb")  # noqa: PTH123 (of a handle)


def checksum(path: Path, algorithm: str = "sha256", on_hashed: OnHashed | None = None) -> str:
    """The checksum of a file, as `sha256sum` prints it."""
    found = hashlib.new(algorithm, usedforsecurity=False)
    buffer = memoryview(bytearray(1 << 18))  # fits into the processor's cache: larger ones are slower
    done, total = 0, path.stat().st_size
    with path.open("rb", buffering=0) as content:
        while count := content.readinto(buffer):
            found.update(buffer[:count])
            done += count
            if on_hashed:
                on_hashed(done, total)
    return found.hexdigest()


def folder_below(folder: Path, name: str) -> Path:
    """A folder of ours inside a folder that may be a stranger's: a link to another place is a UserError."""
    place = folder / name
    if place.is_symlink():
        raise UserError(f"{place} is a symbolic link, so its files would go elsewhere: remove it, or pass --out")
    return place


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """An empty temporary file beside `path`; removed afterwards unless it was renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{process_name()}.")
    os.close(handle)
    part = Path(name)
    try:
        part.chmod(0o666 & ~_umask())  # mkstemp creates private files
        yield part
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _durable(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that is on the disk at the end of the block."""
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of processes of this machine that died while writing."""
    host, _ = process_name().rsplit("-", 1)
    for part in folder.glob(f".*.{host}-*.*"):
        pid = part.name.rpartition(".")[0].rpartition("-")[2]
        if pid.isdecimal() and not _is_alive(int(pid)):
            part.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@cache
def _umask() -> int:
    """The process's umask. Reading it requires setting it, so it is read once, before threads start."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def process_name() -> str:
    """A name for this process, unique among the running processes of a cluster."""
    host = re.sub(r"[^0-9A-Za-z.-]", "-", socket.gethostname())
    return f"{host}-{os.getpid()}"


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
