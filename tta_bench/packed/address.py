"""The address of a run: a folder, a packed file, or the URL of one. Each becomes a folder to read."""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tta_bench.errors import UserError
from tta_bench.packed.pack import MOST_PACKED

Address = str | os.PathLike[str]


def is_folder(address: Address) -> bool:
    """Whether a run is a folder, so that tables can be written into it."""
    return not _is_url(address) and not Path(address).is_file()


def run_folder(address: Address, most: int = MOST_PACKED) -> Path:
    """The folder of a run; a packed run is unpacked into a temporary folder, removed when this process ends."""
    if _is_url(address):
        return _fetched(str(address), most)
    path = Path(address)
    if not path.is_file():
        return path
    seen = path.stat()
    return _unpacked(path.resolve(), most, seen.st_mtime_ns, seen.st_size, seen.st_ino)


def _is_url(address: Address) -> bool:
    return isinstance(address, str) and address.startswith(("http://", "https://"))


@cache
def _unpacked(file: Path, most: int, mtime: int, size: int, inode: int) -> Path:
    from tta_bench.packed.unpack import unpack_run

    folder = _new_folder() / file.name
    unpack_run(file, folder, most)
    return folder


@cache
def _fetched(url: str, most: int) -> Path:
    from tta_bench.download import space, transfer

    name = Path(unquote(urlsplit(url).path)).name or "run.zip"
    folder = _new_folder()
    part = folder / "fetched" / "".join(char if char.isalnum() or char in "._-" else "-" for char in name)[-100:]
    part.parent.mkdir()

    def refuse_large(done: int, total: int | None = None) -> None:
        if max(done, total or 0) > most:
            raise UserError(f"{url}: has more than {most:,} bytes: refused")

    def require(size: int) -> None:
        refuse_large(size)
        space.require(folder, size, part.name)

    try:
        transfer.fetch(url, part, expected=None, on_bytes=refuse_large, on_size=require)
    except UserError as error:  # a run has no mirror
        raise UserError(re.split("(; |, or )--mirror", str(error))[0]) from error
    found = run_folder(part, most)
    part.unlink()
    return found


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(dir=_home().name))


@cache
def _home() -> tempfile.TemporaryDirectory[str]:
    home = tempfile.TemporaryDirectory(prefix="tta-bench-packed-", ignore_cleanup_errors=True)
    atexit.register(home.cleanup)  # else Python warns about it at exit
    return home
