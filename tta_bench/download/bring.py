"""Brings one published file into the data root: fetched, checked, unpacked, and only then moved into place.

<folder of the target>/.downloads/<file>.part      what has arrived; a later call continues it
<folder of the target>/.downloads/<file>.unpacked  the folder in which it is unpacked
<folder of the target>/.downloads/<file>.json      where it came from, and its checksum
<folder of the target>/.downloads/<file>.lock      held by the process that is at it

Beside the target, and not in a place of its own: a dataset's folder may be a link to another disk, and moving must not
copy. Loaders skip names that start with a dot.
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
from tta_bench.files import checksum, now, write_whole

HIDDEN = ".downloads"
UNPUBLISHED = "sha256"  # computed where no checksum is published

OnProgress = Callable[[str, int, "int | None"], None]  # what is going on, bytes done, of how many


@dataclass(frozen=True)
class Brought:
    """What `bring` did."""

    target: Path
    was_there: bool = False
    checksum: str = ""  # "md5 …" or "sha256 …"
    is_published: bool = True  # whether the checksum was compared with a published one


def is_there(file: PublishedFile, root: Path) -> bool:
    """Whether the data root has this file, or the folders that it would unpack to."""
    target = root / file.brings
    unpacked = [target.parent / name for name in file.same_as]
    return os.path.lexists(target) or (bool(unpacked) and all(path.is_dir() for path in unpacked))


def refuse_two_places(file: PublishedFile, root: Path) -> None:
    """Refuse a data root in which the loader would then find the same dataset twice."""
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


def bring(
    file: PublishedFile,
    root: Path,
    *,
    mirror: str | None = None,
    on_progress: OnProgress = lambda stage, done, total: None,
    on_wait: Callable[[], None] = lambda: None,
) -> Brought:
    """Bring a file into the data root, unless it is there; UserError says what is wrong, and nothing half-made shows.

    What has arrived stays hidden beside the target until a later call completes it.
    """
    target = root / file.brings
    if is_there(file, root):
        return Brought(target, was_there=True)
    address = address_of(file, mirror)
    refuse_two_places(file, root)
    hidden = target.parent / HIDDEN
    part = hidden / f"{file.name}.part"
    try:
        hidden.mkdir(parents=True, exist_ok=True)
        with _locked(hidden / f"{file.name}.lock", on_wait):
            if is_there(file, root):  # the process before us brought it
                return Brought(target, was_there=True)
            transfer.fetch(
                address,
                part,
                expected=file.bytes,
                on_bytes=lambda done, total: on_progress("fetching", done, total),
                on_size=lambda size: space.require(hidden, size, file.name),
            )
            seen = _check(file, part, address, on_progress)
            _place(file, part, target, on_progress)
            _note(file, hidden, seen)  # not before: what cannot be unpacked must not bind later downloads
            return Brought(target, checksum=seen.checksum, is_published=file.checksum is not None)
    except OSError as error:
        raise transfer.cannot_write(Path(error.filename or hidden), error) from error


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


@dataclass(frozen=True)
class Seen:
    """What was fetched."""

    address: str
    bytes: int
    algorithm: str
    digest: str

    @property
    def checksum(self) -> str:
        return f"{self.algorithm} {self.digest}"


def _check(file: PublishedFile, part: Path, address: str, on_progress: OnProgress) -> Seen:
    """Compare with the published checksum, or with the one seen before; returns it. A wrong file is removed."""
    algorithm, expected = file.checksum or (UNPUBLISHED, "")
    found = checksum(part, algorithm, lambda done, total: on_progress("checking", done, total))
    if expected and found != expected:
        part.unlink()
        raise UserError(
            f"{address}: {algorithm} {found}, but {expected} is published: the file was damaged on its way or is "
            f"another one; it was removed, run the same command again"
        )
    note = part.with_name(f"{file.name}.json")
    before = _seen(note)
    if not expected and before not in ("", found):
        raise UserError(
            f"{address}: {algorithm} {found}, but it was {before} when it was fetched before: "
            f"delete {note} to accept it"
        )
    return Seen(address, part.stat().st_size, algorithm, found)


def _note(file: PublishedFile, hidden: Path, seen: Seen) -> None:
    """Record where a file came from, and its checksum."""
    content = {"address": seen.address, "bytes": seen.bytes, seen.algorithm: seen.digest}
    content |= {"published": file.checksum is not None, "fetched_at": now()}
    write_whole(hidden / f"{file.name}.json", json.dumps(content, indent=1).encode() + b"\n")


def _seen(note: Path) -> str:
    """The checksum that was computed when the file was fetched before; empty if it was not."""
    try:
        return str(json.loads(note.read_text()).get(UNPUBLISHED, ""))
    except (OSError, ValueError, AttributeError):
        return ""


def _place(file: PublishedFile, part: Path, target: Path, on_progress: OnProgress) -> None:
    """Move a checked file, or what is packed in it, to its target, which must not exist."""
    if not file.is_unpacked:
        _move(part, target)
        return
    into = part.with_name(f"{file.name}.unpacked")
    shutil.rmtree(into, ignore_errors=True)  # of a process that died: we hold the lock
    size = part.stat().st_size
    try:
        space.require(part.parent, unpack.unpacked_size(part) or size, f"unpacking {file.name}")
        into.mkdir()
        unpack.unpack(part, into, lambda done: on_progress("unpacking", done, size))
        folder = unpack.top_folder(into, target.name, Path(file.name))
        _move(folder, target)
    except unpack.BadArchive as error:
        if file.checksum is not None:  # the published file is like that: fetching it again would not help
            raise
        part.unlink()
        raise UserError(f"{error}; the file was removed, run the same command again") from error
    finally:
        shutil.rmtree(into, ignore_errors=True)
    part.unlink()


def _move(path: Path, target: Path) -> None:
    """Rename, but never over something: somebody else may have put it there meanwhile."""
    if os.path.lexists(target):
        raise UserError(f"{target} has appeared meanwhile and is left as it is")
    path.rename(target)
