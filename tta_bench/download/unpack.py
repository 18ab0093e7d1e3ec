"""Unpacks untrusted tar and zip archives: no path leaves the folder, and only plain files and folders are created.

Every name is checked before it is used, and links, devices and repeated names are refused. The folder is new and only
this process writes to it, so no link can be in the way: checking names suffices. tarfile's `data` filter would resolve
every path on disk instead and takes longer than writing a small file.
"""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from tta_bench.errors import UserError

CHUNK = 1 << 20
JUNK = ("__MACOSX", ".DS_Store")

OnUnpacked = Callable[[int], None]  # bytes read from the archive


class BadArchive(UserError):
    """An archive that is damaged, or holds something it must not."""


Member = tuple[str, IO[bytes], int]  # its name, its content from where the file stands, its size


def unpack(archive: Path, into: Path, on_unpacked: OnUnpacked | None = None) -> None:
    """Unpack all files of a tar, compressed tar or zip; BadArchive if it is damaged or has an unsafe name.

    `into` must be a new folder that only this process writes to. After an error it is incomplete.
    """
    made: set[str] = set()
    seen: set[str] = set()
    with archive_errors(archive):
        buffer = memoryview(bytearray(CHUNK))
        for name, content, size in _members(archive, on_unpacked or (lambda done: None)):
            path = safe_name(name, archive)
            if path is None:
                continue
            if path in seen:
                raise BadArchive(f"{archive.name}: has two files named '{path}': refused")
            seen.add(path)
            folder = path.rpartition("/")[0]
            if folder not in made:
                (into / folder).mkdir(parents=True, exist_ok=True)
                made.add(folder)
            target = os.open(f"{into}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                _copy(content, size, target, buffer)
            finally:
                os.close(target)


def unpacked_size(archive: Path) -> int | None:
    """The unpacked size of an archive, if its index states it."""
    with archive_errors(archive):
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as content:
                return sum(info.file_size for info in content.infolist())
    return None


def safe_name(name: str, archive: Path) -> str | None:
    """A member's path below the folder; None for files that a Mac adds. BadArchive if it would leave the folder."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0] == "/" or "\\" in name or "\0" in name or parts[0][1:2] == ":":
        raise BadArchive(f"{archive.name}: has a file named '{name}', which is outside its folder: refused")
    if parts[0] in JUNK or parts[-1] in JUNK or parts[-1].startswith("._"):
        return None
    return "/".join(parts)


def top_folder(folder: Path, name: str, archive: Path) -> Path:
    """The folder in an unpacked archive that holds everything: the one of this name, or the only one."""
    found = sorted(path for path in folder.iterdir())
    if (folder / name) in found and (folder / name).is_dir():
        return folder / name
    if len(found) == 1 and found[0].is_dir():
        return found[0]
    names = ", ".join(path.name for path in found[:3]) or "nothing"
    raise BadArchive(f"{archive.name}: expected one folder '{name}' in it, found {names}")


def _copy(content: IO[bytes], size: int, target: int, buffer: memoryview) -> None:
    left = size
    while left:
        count: int = content.readinto(buffer[: min(left, CHUNK)])  # type: ignore[attr-defined]
        if not count:
            raise EOFError("it ends early")
        written = 0
        while written < count:
            written += os.write(target, buffer[written:count])
        left -= count


def _members(archive: Path, on_unpacked: OnUnpacked) -> Iterator[Member]:
    with archive.open("rb") as file:
        is_tar = file.read(262)[257:] == b"ustar"
    if not is_tar and zipfile.is_zipfile(archive):
        return _in_zip(archive, on_unpacked)
    return _in_tar(archive, on_unpacked, is_plain=is_tar)


def _in_tar(archive: Path, on_unpacked: OnUnpacked, *, is_plain: bool) -> Iterator[Member]:
    with (
        archive.open("rb", buffering=0) as raw,
        archive.open("rb") as packed,
        tarfile.open(fileobj=packed, mode="r:*") as content,
    ):
        for member in content:
            content.members.clear()  # type: ignore[attr-defined]  # else it keeps all of them, 1 kB each
            if member.isdir():
                safe_name(member.name, archive)
            elif not member.isreg() or member.sparse is not None:
                raise BadArchive(f"{archive.name}: '{member.name}' is a link or a device, not a file: refused")
            elif is_plain:
                raw.seek(member.offset_data)
                yield member.name, raw, member.size
            else:
                yield member.name, content.extractfile(member) or raw, member.size
            on_unpacked(packed.tell())


def _in_zip(archive: Path, on_unpacked: OnUnpacked) -> Iterator[Member]:
    done = 0
    with zipfile.ZipFile(archive) as content:
        for info in content.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if info.is_dir():
                safe_name(info.filename, archive)
                continue
            if kind not in (0, stat.S_IFREG):
                raise BadArchive(f"{archive.name}: '{info.filename}' is a link or a device, not a file: refused")
            with content.open(info) as file:
                yield info.filename, file, info.file_size
            done += info.compress_size
            on_unpacked(done)


@contextmanager
def archive_errors(archive: Path) -> Iterator[None]:
    """Names the archive in errors; a full disk stays an OSError."""
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, NotImplementedError) as error:
        why = "neither a tar nor a zip" if "\n" in str(error) else error  # tarfile lists every format it has tried
        raise BadArchive(f"{archive.name}: not a readable archive ({why})") from error
    except RuntimeError as error:  # how zipfile reports an encrypted file
        raise BadArchive(f"{archive.name}: cannot be unpacked ({error})") from error
    except OSError as error:
        if error.errno is None:  # gzip's own
            raise BadArchive(f"{archive.name}: not a readable archive ({error})") from error
        raise
