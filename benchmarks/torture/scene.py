"""A small run to torture: 12 cells, a reference to compare with, and ways to start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tta_bench.cli.main import main
from tta_bench.errors import UserError
from tta_bench.files import process_name
from tta_bench.records.store import Store

SUITE = """
name: torture
about: a small run
model: digits-vit
batch_size: 32
tasks: [contrast, fog, snow]
data: {kind: digits-c, severity: 5}
methods: {source: {}, tent: {}}
seeds: [0, 1]
"""
CELLS = 12


class Scene:
    """A suite file, and the predictions that an undisturbed run makes."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.suite = home / "torture.yaml"
        self.suite.write_text(SUITE)
        with redirect_stdout(StringIO()):  # here, so that forked runs find everything imported
            done = main([*self.words(home / "reference"), "--in-process"])
        self.expected = predictions(home / "reference")
        if done != 0 or len(self.expected) != CELLS:
            raise RuntimeError(f"the reference run ended with status {done} and {len(self.expected)} cells")

    def words(self, out: Path) -> list[str]:
        return ["run", "--suite", str(self.suite), "--limit", "64", "--device", "cpu", "--out", str(out)]

    def start(
        self, out: Path, *, in_process: bool = True, pipe: bool = False, more: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        """The command in a process group of its own."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("TTA_BENCH_IN_PROCESS", None)
        to: Any = subprocess.PIPE if pipe else subprocess.DEVNULL
        return subprocess.Popen(
            [sys.executable, "-m", "tta_bench", *self.words(out), *more, *(["--in-process"] if in_process else [])],
            stdout=to,
            stderr=to,
            text=True,
            env=environment,
            start_new_session=True,
            preexec_fn=_heed_signals,
        )

    def wrong(self, out: Path) -> list[str]:
        """What is not as it should be in a folder: damaged files, and other predictions than the reference's."""
        try:
            found = predictions(out)
        except UserError as error:
            return [str(error)]
        return [name for name, content in found.items() if self.expected.get(name) != content]


def _heed_signals() -> None:
    """Undo what nohup and background jobs of a shell leave to their processes: a command that ignores signals."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def predictions(out: Path) -> dict[str, bytes]:
    """The predictions of all finished cells, checked against their records."""
    if not (out / "cells").is_dir():
        return {}
    store = Store(out)
    found = {}
    for record in store.records():
        if record.status == "done":
            store.predictions(record)
            file = store.prediction_file(record.cell)
            found[file.name] = file.read_bytes()
    return found


def leftovers(out: Path) -> list[str]:
    """Temporary files that nobody will finish."""
    host = process_name().rpartition("-")[0]
    return [path.name for path in out.rglob(f".*{host}-*")]
