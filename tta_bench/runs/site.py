"""Where cells run: data, cache, readers, device. Never part of a result's identity, and needs no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tta_bench.checked import readers as read
from tta_bench.checked.options import option, read_all
from tta_bench.errors import UserError

_READERS = "processes that read images (default: one per core, if images are on disk)"
_CACHE = (
    "keep decoded images here, and what methods learn from source images, so that later methods and runs start faster"
)
_DATA_ROOT = "folder that holds the datasets (default: {default}; $TTA_BENCH_DATA changes it)"
_TIME_LIMIT = (
    "longest time for one cell, as 90s, 30m or 2h "
    "(default: 50 times Source's, at least 10 minutes; more for expensive methods)"
)
_IN_PROCESS = (
    "adapt in the process that scores instead of in a worker of its own: for debuggers, without isolation (or "
    "$TTA_BENCH_IN_PROCESS)"
)


def data_root(given: str | Path | None = None) -> Path:
    """The folder of the datasets: the given one, else $TTA_BENCH_DATA, else one in the user's cache folder."""
    chosen = given or os.environ.get("TTA_BENCH_DATA")  # an empty variable counts as not set
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("tta-bench", appauthor=False) / "data"


def _in_process() -> bool:
    return bool(os.environ.get("TTA_BENCH_IN_PROCESS"))


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where cells run. Each field is an option of `run`, and none of them can change a result."""

    device: str = option("auto", "auto, cpu, cuda, cuda:N or mps (default: auto, a GPU if there is one)")
    readers: int | None = option(None, _READERS, read.whole)
    cache: Path | None = option(None, _CACHE, read.path)
    data_root: Path | None = option(data_root, _DATA_ROOT, read.path)
    time_limit: float | None = option(None, _TIME_LIMIT, read.seconds)  # in seconds
    in_process: bool = option(_in_process, _IN_PROCESS, read.flag)

    def __post_init__(self) -> None:
        read_all(self)


def refuse_unwritable_cache(cache: Path) -> None:
    """Refuse an unwritable cache before the first image is read into it."""
    there = next(folder for folder in (cache.absolute(), *cache.absolute().parents) if os.path.lexists(folder))
    if not there.is_dir():
        raise UserError(f"--cache {cache}: {there} is a file, expected a folder")
    is_filled = there == cache.absolute() and any(cache.glob("*.u8"))  # a filled cache is only read
    if not is_filled and not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--cache {cache}: {there} cannot be written: choose another --cache")
