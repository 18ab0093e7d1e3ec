"""Keys of cells that were bound before, so that a finished run is recognised without torch or images.

Each key is stored with stamps of all that it depends on (found.py). If a stamp has changed, the key is ignored and the
cell is bound again. The files are a cache for this machine, not evidence: deleting them only costs time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench import registry
from tta_bench.data.images import sample_files
from tta_bench.errors import UserError
from tta_bench.files import process_name, read_whole
from tta_bench.identity.contents import files_in
from tta_bench.records.spec import CellSpec
from tta_bench.runs.found import Request, stamps
from tta_bench.runs.site import Site

if TYPE_CHECKING:
    from tta_bench.isolation.host import Work


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
            now = stamps(Request(spec, self._site, entry["needs_source"]))
            same = now is not None and now == entry["stamps"] and _file_stamps(entry["files"]) == entry["files"]
        except (UserError, KeyError, TypeError, AttributeError):  # binding the spec reports what is wrong
            return None
        return str(entry["key"]) if same else None

    def add(self, spec: CellSpec, work: Work) -> None:
        """Store the key of a bound spec, with a sample of its images and the files that its settings name."""
        needs_source = work.source_images is not None
        found = stamps(Request(spec, self._site, needs_source))
        if found is None:
            return
        named = files_in(registry.installed().load(spec.method).files(work.setup.settings))
        seen = _file_stamps(map(str, [*sample_files(work.stream.images), *named]))
        key = work.cell.key
        entry = {"spec": spec.digest, "key": key, "needs_source": needs_source, "stamps": found, "files": seen}
        if self._entries.get(spec.digest) == entry:
            return
        self._entries[spec.digest] = entry
        with suppress(OSError):  # a full disk, for example: saving the record reports it
            self._folder.mkdir(exist_ok=True)
            with (self._folder / f"{process_name()}.jsonl").open("a") as file:
                file.write(json.dumps(entry) + "\n")


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
