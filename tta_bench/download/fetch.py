"""Fetches one published file into the data root: downloads, checks and unpacks it before moving it into place.

<folder of the target>/.downloads/<file>.part      what has arrived; a later call continues it
<folder of the target>/.downloads/<file>.unpacked  the folder in which it is unpacked
<folder of the target>/.downloads/<file>.json      where it came from, and its checksum
<folder of the target>/.downloads/<file>.lock      held by the process that fetches it

They are beside the target because a dataset's folder may be a link to another disk, and moving must not copy.
Loaders skip names that start with a dot.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from tta_bench.download import space, transfer, unpack
from tta_bench.download.table import PublishedFile
from tta_bench.errors import UserError
from tta_bench.files import cannot_write, checksum, now, write_whole

HIDDEN = ".downloads"
UNPUBLISHED = "sha256"  # computed where no checksum is published

OnProgress = Callable[[str, int, "int | None"], None]  # stage, bytes done, of how many


@dataclass(frozen=True)
class Fetched:
    """What `fetch_file` did."""

    target: Path
    was_there: bool = False
    checksum: str = ""  # "md5 …" or "sha256 …"
    is_published: bool = True  # whether the checksum was compared with a published one


def is_there(file: PublishedFile, root: Path) -> bool:
    """Whether the data root has this file, or the folders that it would unpack to."""
    target = root / file.brings
    unpacked = [target.parent / name for name in file.same_as]
    return os.path.lexists(target) or (bool(unpacked) and all(path.is_dir() for path in unpacked))


def refuse_duplicate(file: PublishedFile, root: Path) -> None:
    """Refuse a data root in which the loader would find the same dataset twice."""
    folder = file.brings.partition("/")[0]
    if root.name.lower() == folder.lower():
        raise UserError(f"--data-root {root} is a dataset's own folder: pass {root.parent}, the folder above it")
    if not root.is_dir() or (root / folder).exists():
        return
    for name in sorted(path.name for path in root.iterdir()):
        if name.lower() == folder.lower():
            raise UserError(
                f"{root / name} exists beside the expected {folder}: rename it to {folder}, or move it away"
            )


def address_of(file: PublishedFile, mirror: str | None) -> str:
    """Where to fetch a file: its published address, or the same name on a mirror."""
    if mirror is None:
        return file.address
    if not mirror.startswith(("http://", "https://")):
        raise UserError(f"--mirror {mirror}: expected an address that starts with http:// or https://")
    return f"{mirror.rstrip('/')}/{file.name}"


def fetch_file(
    file: PublishedFile,
    root: Path,
    *,
    mirror: str | None = None,
    on_progress: OnProgress = lambda stage, done, total: None,
    on_wait: Callable[[], None] = lambda: None,
) -> Fetched:
    """Fetch a file into the data root unless it exists; an error leaves no incomplete dataset.

    A partial download stays hidden beside the target until a later call completes it.
    """
    target = root / file.brings
    if is_there(file, root):
        return Fetched(target, was_there=True)
    address = address_of(file, mirror)
    refuse_duplicate(file, root)
    hidden = target.parent / HIDDEN
    part = hidden / f"{file.name}.part"
    try:
        hidden.mkdir(parents=True, exist_ok=True)
        with _locked(hidden / f"{file.name}.lock", on_wait):
            if is_there(file, root):  # another process has fetched it meanwhile
                return Fetched(target, was_there=True)
            transfer.fetch(
                address,
                part,
                expected=file.bytes,
                on_bytes=lambda done, total: on_progress("fetching", done, total),
                on_size=lambda size: space.require(hidden, size, file.name),
            )
            note = {"address": address, "bytes": part.stat().st_size}
            algorithm, digest = _check(file, part, address, on_progress)
            _install(file, part, target, on_progress)
            # Not before: what cannot be unpacked must not bind later downloads.
            note |= {algorithm: digest, "published": file.checksum is not None, "fetched_at": now()}
            write_whole(hidden / f"{file.name}.json", json.dumps(note, indent=1).encode() + b"\n")
            return Fetched(target, checksum=f"{algorithm} {digest}", is_published=file.checksum is not None)
    except OSError as error:
        raise cannot_write(error.filename or hidden, error) from error


@contextmanager
def _locked(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _check(file: PublishedFile, part: Path, address: str, on_progress: OnProgress) -> tuple[str, str]:
    """Compare with the published checksum, or with an earlier download's. A wrong file is removed.

    Returns algorithm and digest.
    """
    algorithm, expected = file.checksum or (UNPUBLISHED, "")
    found = checksum(part, algorithm, lambda done, total: on_progress("checking", done, total))
    if expected and found != expected:
        part.unlink()
        raise UserError(
            f"{address}: {algorithm} {found}, but {expected} is published: the file is damaged or another one; "
            f"it was removed, run the same command again"
        )
    note = part.with_name(f"{file.name}.json")
    before = _earlier(note)
    if not expected and before not in ("", found):
        raise UserError(
            f"{address}: {algorithm} {found}, but an earlier download had {before}: delete {note} to accept it"
        )
    return algorithm, found


def _earlier(note: Path) -> str:
    """The checksum of an earlier download; empty if there was none."""
    try:
        return str(json.loads(note.read_text()).get(UNPUBLISHED, ""))
    except (OSError, ValueError, AttributeError):
        return ""


def _install(file: PublishedFile, part: Path, target: Path, on_progress: OnProgress) -> None:
    """Move a checked file, or its unpacked content, to its target, which must not exist."""
    if not file.is_unpacked:
        _move(part, target)
        return
    into = part.with_name(f"{file.name}.unpacked")
    shutil.rmtree(into, ignore_errors=True)  # we hold the lock, so leftovers come from crashed processes
    size = part.stat().st_size
    try:
        space.require(part.parent, unpack.unpacked_size(part) or size, f"unpacking {file.name}")
        into.mkdir()
        unpack.unpack(part, into, lambda done: on_progress("unpacking", done, size))
        folder = unpack.top_folder(into, target.name, Path(file.name))
        _move(folder, target)
    except unpack.BadArchive as error:
        if file.checksum is not None:  # a new download would be as bad
            raise
        part.unlink()
        raise UserError(f"{error}; the file was removed, run the same command again") from error
    finally:
        shutil.rmtree(into, ignore_errors=True)
    part.unlink()


def _move(path: Path, target: Path) -> None:
    """Rename, but never replace a file that another process has made meanwhile."""
    if os.path.lexists(target):
        raise UserError(f"{target} appeared meanwhile and is left unchanged")
    path.rename(target)
