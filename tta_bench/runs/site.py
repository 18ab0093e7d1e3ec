"""Where cells run: data, cache, readers, device. Never part of a result's identity, and needs no torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tta_bench.errors import UserError


def data_root(given: str | Path | None = None) -> Path:
    """The folder of the datasets: the given one, else $TTA_BENCH_DATA, else one in the user's cache folder."""
    chosen = given or os.environ.get("TTA_BENCH_DATA")  # an empty variable counts as not set
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("tta-bench", appauthor=False) / "data"


@dataclass(frozen=True)
class Site:
    """Where cells run."""

    data_root: Path | None = None
    cache: Path | None = None
    workers: int | None = None  # processes that read images; None: as many as help
    device: str = "auto"
    time_limit: float | None = None  # seconds for a cell; None: a multiple of Source's time
    in_process: bool = field(default_factory=lambda: bool(os.environ.get("TTA_BENCH_IN_PROCESS")))  # for debuggers

    def to_json(self) -> dict[str, Any]:
        return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Site:
        paths = {key: Path(content[key]) for key in ("data_root", "cache") if content.get(key)}
        return cls(**{**content, **paths})

    def device_stamp(self) -> str:
        """A stamp that changes when another kind of device would be picked, as far as is known without torch."""
        has_gpus = any(Path("/dev").glob("nvidia[0-9]*"))
        hides_them = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")  # a worker sees one of several GPUs
        return f"{self.device} {sys.platform} {has_gpus and not hides_them}"


def refuse_unwritable_cache(cache: Path) -> None:
    """Refuse an unwritable cache before the first image is read into it."""
    there = next(folder for folder in (cache.absolute(), *cache.absolute().parents) if os.path.lexists(folder))
    if not there.is_dir():
        raise UserError(f"--cache {cache}: {there} is a file, expected a folder")
    is_filled = there == cache.absolute() and any(cache.glob("*.u8"))  # a filled cache is only read
    if not is_filled and not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--cache {cache}: {there} cannot be written: choose another --cache")
