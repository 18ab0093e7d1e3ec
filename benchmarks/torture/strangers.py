"""Hostile result folders: read by every command, which must write nothing outside, execute nothing and stay small."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.records import changed, keep, make_cell, make_record
from tta_bench.records.predictions import ROW, _header, digest
from tta_bench.records.record import Record
from tta_bench.records.store import Store

LONGEST = 60.0  # seconds that a command may take
EVIL = "=cmd|' /C calc'!A1<script>alert(1)</script>\x1b[2J"


def strangers() -> dict[str, Any]:
    """All hostile folders, from a small process: Linux counts the memory of a parent as its child's."""
    command = [sys.executable, "-m", "benchmarks.torture.strangers"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def read_all(home: Path) -> dict[str, Any]:
    """Give each hostile folder to report, compare and verify, each in a process of its own."""
    figures = {"folders": 0, "commands": 0, "tracebacks": 0, "hung": 0, "written outside": 0, "executed": 0, "MB": 0}
    for make in FOLDERS:
        place = home / make.__name__
        store = Store.create(place / "run", "s")
        for method in ("source", "tent"):
            keep(store, make_record(method))
        make(store)
        before = outside(home, store.folder)
        figures["folders"] += 1
        for words in (["report"], ["compare", "--a", "source", "--b", "tent"], ["verify"]):
            figures["commands"] += 1
            shown, megabytes = run([words[0], str(store.folder), *words[1:]])
            figures["hung"] += shown is None
            figures["tracebacks"] += "Traceback" in (shown or "")
            figures["MB"] = max(figures["MB"], megabytes)
        changed = outside(home, store.folder) - before
        figures["executed"] += any("executed" in path for path, _ in changed)
        figures["written outside"] += len(changed)
    figures["most memory in MB"] = figures.pop("MB")
    return figures


def run(words: list[str]) -> tuple[str | None, int]:
    """Run a command; what it showed, None if it hung, and the most memory that it used, in megabytes."""
    command = [sys.executable, "-m", "tta_bench", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    deadline = time.monotonic() + LONGEST
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            return None, 0
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    with process.stdout as pipe:
        return pipe.read(), used.ru_maxrss // 1024


def outside(home: Path, folder: Path) -> set[tuple[str, int]]:
    """All files and folders but the run folder's own, each with its time."""
    found = (path for path in home.rglob("*") if not path.is_relative_to(folder))
    return {(str(path), path.lstat().st_mtime_ns) for path in found}


def put(store: Store, record: Record) -> Path:
    """Write a record with right digests, whatever it says."""
    path = store.cells / f"{record.cell.slug.replace('/', '-')}.json"
    path.write_bytes(record.to_bytes())
    return path


def suite_above(store: Store) -> None:
    put(store, replace(make_record("sar"), cell=make_cell("sar", suite="../../above"), predictions="0" * 64))


def suite_elsewhere(store: Store) -> None:
    cell = make_cell("sar", suite=str(store.folder.parent / "elsewhere"))
    put(store, replace(make_record("sar"), cell=cell, predictions="0" * 64))


def linked_report(store: Store) -> None:
    away = store.folder.parent / "away"
    away.mkdir()
    (store.folder / "report").symlink_to(away)


def linked_table(store: Store) -> None:
    (store.folder / "report").mkdir()
    victim = store.folder.parent / "victim.csv"
    victim.write_text("mine\n")
    for name in ("accuracy.csv", "report.html", "report.md"):
        (store.folder / "report" / name).symlink_to(victim)


def pipe_as_record(store: Store) -> None:
    os.mkfifo(store.cells / "sar--fog--seed0--000000000000.json")


def pipe_as_manifest(store: Store) -> None:
    store.manifest.unlink()
    os.mkfifo(store.manifest)


def device_as_predictions(store: Store) -> None:
    path = next(store.cells.glob("tent*.npy"))
    path.unlink()
    path.symlink_to("/dev/zero")


def huge_predictions(store: Store) -> None:
    count = 2**32
    record = changed(make_record("tent"), samples=count, predictions="0" * 64)
    path = put(store, record).with_suffix(".npy")
    with path.open("wb") as file:
        file.write(_header(count))
        file.truncate(len(_header(count)) + count * ROW.itemsize)


def packed_predictions(store: Store) -> None:
    """An archive that unpacks to a thousand times its size."""
    path = next(store.cells.glob("tent*.npy"))
    np.savez_compressed(path.with_suffix(""), np.zeros(2**27, np.uint8))
    os.replace(path.with_suffix(".npz"), path)  # noqa: PTH105
    put(store, replace(make_record("tent"), predictions=digest(path.read_bytes())))


class Executes:
    """Leaves a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.mark), "w")


def pickled_predictions(store: Store) -> None:
    path = next(store.cells.glob("tent*.npy"))
    mark = Executes(store.folder.parent / "executed")
    np.save(path, np.array([mark], object), allow_pickle=True)
    put(store, replace(make_record("tent"), predictions=digest(path.read_bytes())))
    (store.folder / "prepared").mkdir()
    (store.folder / "prepared" / "x.pt").write_bytes(pickle.dumps(mark))


def evil_names(store: Store) -> None:
    keep(store, changed(make_record("tent"), label=EVIL, remarks=[EVIL]))
    store.note_warnings({"w": EVIL})


def nested_record(store: Store) -> None:
    (store.cells / "sar--fog--seed0--000000000000.json").write_text("[" * 1_000_000)


def long_number(store: Store) -> None:
    path = next(store.cells.glob("tent*.json"))
    path.write_text(path.read_text().replace('"resets": 0', f'"resets": {"9" * 5000}'))


def sparse_record(store: Store) -> None:
    with (store.cells / "sar--fog--seed0--000000000000.json").open("wb") as file:
        file.truncate(2**36)


FOLDERS = (
    *(suite_above, suite_elsewhere, linked_report, linked_table, pipe_as_record, pipe_as_manifest),
    *(device_as_predictions, huge_predictions, packed_predictions, pickled_predictions, evil_names),
    *(nested_record, long_number, sparse_record),
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(read_all(Path(place))))
