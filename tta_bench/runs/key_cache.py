"""Keys of cells that were bound before, so that a finished run is recognised without torch or images.

Each key is stored with stamps: hashes of code, sizes and times of files, versions of packages. If a stamp has changed,
the key is ignored and the cell is bound again. The files are a cache for this machine, not evidence: deleting them
only costs time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tta_bench
from tta_bench import registry
from tta_bench.datasets import Dataset, kinds, open_dataset
from tta_bench.errors import UserError
from tta_bench.files import process_name, read_whole
from tta_bench.identity.code import code_hash, harness_hash
from tta_bench.models import names
from tta_bench.records.spec import CellSpec
from tta_bench.runs.site import Site
from tta_bench.runs.spec import BY_TASK
from tta_bench.streams.scenarios import Material, protocol, scenario_code

PACKAGES = ("numpy", "scipy", "scikit-learn", "pillow")  # their versions affect embedded and decoded images


class KeyCache:
    """The keys that earlier processes stored in a folder, for one site."""

    def __init__(self, folder: Path, site: Site) -> None:
        self._folder = folder
        self._site = site
        self._entries: dict[str, dict[str, Any]] = {}
        for file in sorted(folder.glob("*.jsonl")):
            for line in _lines(file):
                self._entries[f"{line.get('spec')}"] = line

    def key(self, spec: CellSpec) -> str | None:
        """The key of a spec's cell; None if only binding the spec can find it."""
        entry = self._entries.get(spec.digest)
        if entry is None:
            return None
        try:
            now = stamps(spec, self._site, entry["needs_source"])
            same = now is not None and now == entry["stamps"] and _file_stamps(entry["files"]) == entry["files"]
        except (UserError, KeyError, TypeError, AttributeError):  # binding the spec reports what is wrong
            return None
        return str(entry["key"]) if same else None

    def add(self, spec: CellSpec, key: str, needs_source: bool, files: Iterable[Path]) -> None:
        """Store the key of a bound spec; `files` are a sample of its images."""
        found = stamps(spec, self._site, needs_source)
        if found is None:
            return
        seen = _file_stamps(map(str, files))
        entry = {"spec": spec.digest, "key": key, "needs_source": needs_source, "stamps": found, "files": seen}
        if self._entries.get(spec.digest) == entry:
            return
        self._entries[spec.digest] = entry
        with suppress(OSError):  # a full disk, for example: saving the record reports it
            self._folder.mkdir(exist_ok=True)
            with (self._folder / f"{process_name()}.jsonl").open("a") as file:
                file.write(json.dumps(entry) + "\n")


def stamps(spec: CellSpec, site: Site, needs_source: bool) -> dict[str, str] | None:
    """A stamp for each thing that a cell's key depends on; None if one of them cannot be checked cheaply."""
    dataset = _dataset(json.dumps(spec.data), spec.tasks, site.data_root)
    model = dataset.model_for(spec.tasks[0]) if spec.model == BY_TASK else spec.model
    material = Material(dataset, spec.data, spec.suite, spec.seed, spec.tasks, site.data_root)
    scenario = protocol(spec)
    places = scenario.places(material)
    found = {
        "model": names.stamp(model or ""),
        "images": _places(places),
        "source": _places([dataset.source_places(spec.tasks[0])]) if needs_source else "",
        "code": f"{tta_bench.__version__} {harness_hash()} {code_hash(dataset.code, kinds().packages())}",
        "scenario": scenario_code(scenario),
        "method": registry.installed().code(spec.method),
        "packages": _versions(),
        "device": site.device_stamp(),
    }
    return None if None in found.values() else {key: str(value) for key, value in found.items()}


@lru_cache(maxsize=16)
def _dataset(data: str, tasks: tuple[str, ...], root: Path | None) -> Dataset:
    return open_dataset(json.loads(data), tasks, root)


def _places(found: Sequence[Sequence[Path] | None]) -> str | None:
    if None in found:
        return None
    return "; ".join(_place(os.fspath(path)) for places in found for path in places or ())


@lru_cache(maxsize=1024)
def _place(path: str) -> str:
    """The stamp of a file (size and time) or folder (its time and its subfolders' times); checks no image."""
    seen = os.stat(path)  # noqa: PTH116
    newest = count = 0
    if os.path.isdir(path):  # noqa: PTH112
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir():
                    count += 1
                    newest = max(newest, entry.stat().st_mtime_ns)
    return f"{path} {seen.st_size} {seen.st_mtime_ns} {count} {newest}"


def _file_stamps(files: Iterable[str]) -> dict[str, list[int]]:
    found = {}
    for file in files:
        try:
            seen = os.stat(file)  # noqa: PTH116
        except OSError:
            found[file] = [0, 0]
            continue
        found[file] = [seen.st_size, seen.st_mtime_ns]
    return found


@lru_cache(maxsize=1)
def _versions() -> str:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _lines(file: Path) -> Iterable[dict[str, Any]]:
    """The entries of a file; skips a line that a killed process left incomplete."""
    try:
        lines = read_whole(file).decode().splitlines()
    except (OSError, UnicodeDecodeError, UserError):
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry
