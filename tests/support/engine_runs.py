"""Runs of a small suite on engines with real processes, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import TWELVE_CELLS
from tta_bench.engines.alive import Life
from tta_bench.records.store import Store

CELLS = 12
# Methods adapt in processes of their own, as for every user; most other tests set TTA_BENCH_IN_PROCESS.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
ENVIRONMENT.pop("TTA_BENCH_IN_PROCESS", None)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite, and a plain run of it."""
    return _home(tmp_path_factory.getbasetemp())


@cache
def _home(base: Path) -> Path:  # the fixture is another one in each file that imports it
    home = base / "engines"
    home.mkdir()
    (home / "suite.yaml").write_text(TWELVE_CELLS)
    done = run(home, "plain", "--in-process")
    assert done.returncode == 0, done.stderr
    return home


def words(home: Path, name: str, *more: object) -> list[str]:
    given = ["run", "--suite", home / "suite.yaml", "--limit", 64, "--device", "cpu", "--out", home / name, *more]
    return [sys.executable, "-m", "tta_bench.cli.main", *map(str, given)]


def run(home: Path, name: str, *more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(home, name, *more), capture_output=True, text=True, env=ENVIRONMENT, timeout=900)


def start(home: Path, name: str, *more: object) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words(home, name, *more), env=ENVIRONMENT, **pipes)


def results(folder: Path) -> dict[str, tuple[str, float, int, int]]:
    """What must be the same however a run was made: everything but times."""
    records = Store.open(folder).records()
    passes = {r.cell.key: (r.measured.sample_forwards, r.measured.sample_backwards) for r in records}
    return {r.cell.key: (r.predictions, r.scores.top1, *passes[r.cell.key]) for r in records}


def lives(folder: Path) -> list[Life]:
    """What the workers of all jobs of a folder say."""
    return [Life.read(path) for path in (folder / "jobs").glob("*/[0-9]*.json")]


def ran(folder: Path) -> int:
    """How many cells workers ran to their end: of a worker that was killed, perhaps without the last one."""
    return sum(life.done for life in lives(folder))


def wait_for(what: Callable[[], Any], seconds: float = 600) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s")


def working(folder: Path) -> Life | None:
    """A worker that has finished a cell and runs another."""
    return next((life for life in lives(folder) if life.done and life.spec and not life.exit), None)


def kill_worker(folder: Path) -> None:
    os.kill(wait_for(lambda: working(folder)).pid, signal.SIGKILL)


def kill_adapt_processes(folder: Path) -> int:
    """Kill the processes in which methods of one worker adapt; returns its pid."""
    worker: int = wait_for(lambda: working(folder)).pid
    for pid in children(worker):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return worker


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def status(folder: Path, *more: str) -> str:
    """What `tta-bench status` shows."""
    words = [sys.executable, "-m", "tta_bench.cli.main", "status", str(folder), *more]
    return subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT).stdout
