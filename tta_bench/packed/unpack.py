"""Unpacks an untrusted packed run. Names, kinds and sizes are checked in the index before anything is written.

A zip ends with its index. We read the last bytes ourselves: a forged index would make `zipfile` take gigabytes.
"""

from __future__ import annotations

import re
import shutil
import stat
import struct
import zipfile
from pathlib import Path

from tta_bench.download import space
from tta_bench.download.unpack import archive_errors, unpack
from tta_bench.errors import UserError, clean
from tta_bench.files import MOST_BYTES
from tta_bench.packed.columns import STREAMS, SUFFIX, join_all
from tta_bench.packed.pack import MOST_FILES, MOST_PACKED, MOST_UNPACKED
from tta_bench.records.reading import MOST_TEXT

END = struct.Struct("<4s4H2LH")  # the last bytes of a zip without a comment
LONGEST_ENTRY = 400  # bytes of the index for one file
LONG = 20  # bytes before the end, where a zip of more than 4 GiB has another record
# Older packed runs have predictions as .npy files.
NAMES = re.compile(
    r"manifest\.json|commands/\w[\w.-]*\.json|warnings/[\w-]+\.txt|cells/\w[\w.+-]*\.(json|npy|columns)"
    r"|streams/[0-9a-f]{64}\.columns"
)
AGAIN = "make it with `tta-bench pack`"


def unpack_run(file: Path, into: Path, most: int = MOST_PACKED) -> None:
    """Unpack a packed run into a new folder; UserError for anything that `pack` does not write."""
    try:
        size = file.stat().st_size
        if size > most:
            raise UserError(f"{file.name}: is {size:,} bytes long, expected at most {most:,}")
        if not file.is_file():
            raise UserError(f"{file.name}: expected a plain file")
        _check_end(file, size)
        with archive_errors(file), zipfile.ZipFile(file) as archive:
            needed = _check(archive.infolist(), file.name)
        into.mkdir(parents=True)
        space.require(into, needed, f"unpacking {file.name}")
        unpack(file, into)
        _join(into)
    except OSError as error:
        raise UserError(f"{file}: cannot be unpacked ({error.strerror or error})") from error


def _join(folder: Path) -> None:
    """Replace the columns of predictions by the .npy files that a run folder has."""
    for path, content in join_all(folder):
        with path.open("xb") as file:
            file.write(content)
        path.with_suffix(SUFFIX).unlink()
    shutil.rmtree(folder / STREAMS, ignore_errors=True)


def _check_end(file: Path, size: int) -> None:
    """Refuse a file that is not a zip, and an index larger than its files need."""
    with file.open("rb") as content:
        content.seek(max(size - END.size - LONG, 0))
        last = content.read()
    if len(last) != END.size + LONG or not last[LONG:].startswith(b"PK\5\6"):
        raise UserError(f"{file.name}: not a packed run, or cut short: {AGAIN}")
    _, disk, other_disk, here, count, index, start, comment = END.unpack(last[LONG:])
    is_long = last.startswith(b"PK\6\7")
    if is_long or disk or other_disk or comment or here != count or start + index + END.size != size:
        raise UserError(f"{file.name}: damaged, or not made by tta-bench: {AGAIN}")
    if count > MOST_FILES or index > count * LONGEST_ENTRY:
        raise UserError(f"{file.name}: has {count:,} files, expected at most {MOST_FILES:,}")


def _check(members: list[zipfile.ZipInfo], where: str) -> int:
    """Refuse names, kinds and sizes that `pack` never writes; returns the bytes that unpacking takes on disk."""
    seen: set[str] = set()
    for member in members:
        name = clean(member.filename)[:100]
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise UserError(f"{where}: '{name}' is a link or a device, not a file: refused")
        if not NAMES.fullmatch(member.filename):
            raise UserError(f"{where}: has a file named '{name}', which `tta-bench pack` never writes: refused")
        if member.filename.lower() in seen:
            raise UserError(f"{where}: has two files named '{name}': refused")
        most = MOST_BYTES if name.endswith((".npy", SUFFIX)) else MOST_TEXT
        if member.file_size > most:
            raise UserError(f"{where}: '{name}' is {member.file_size:,} bytes long, expected at most {most:,}: refused")
        seen.add(member.filename.lower())
    if "manifest.json" not in seen:
        raise UserError(f"{where}: not a packed run: it has no manifest.json: {AGAIN}")
    total = sum(member.file_size for member in members)
    if total > MOST_UNPACKED:
        raise UserError(f"{where}: unpacks to {total:,} bytes, expected at most {MOST_UNPACKED:,}: refused")
    return total + sum(member.file_size for member in members if member.filename.endswith(SUFFIX))  # joined
