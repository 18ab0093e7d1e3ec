"""Runs of a small suite on engines with real processes, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import TWELVE_CELLS
from tta_bench.engines.journal import Life
from tta_bench.records.store import Store

CELLS = 12
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite, and a plain run of it."""
    return _home(tmp_path_factory.getbasetemp())


@cache
def _home(base: Path) -> Path:  # the fixture is another one in each file that imports it
    home = base / "engines"
    home.mkdir()
    (home / "suite.yaml").write_text(TWELVE_CELLS)
    done = run(home, "plain")
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


def ended(folder: Path) -> list[str]:
    """The cells that workers ran themselves, in all jobs of a folder."""
    lives = [Life(path) for path in (folder / "jobs").glob("*/*.jsonl")]
    for life in lives:
        life.follow()
    return [spec for life in lives for spec in life.seconds]


def wait_for(what: Callable[[], Any], seconds: float = 600) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s")


def working(folder: Path) -> Life | None:
    """A worker that has finished a cell and runs another."""
    for path in (folder / "jobs").glob("*/*.jsonl"):
        life = Life(path)
        life.follow()
        if life.ended and life.of:
            return life
    return None


def kill_worker(folder: Path) -> None:
    os.kill(wait_for(lambda: working(folder)).pid, signal.SIGKILL)


def status(folder: Path, *more: str) -> str:
    """What `tta-bench status` shows."""
    words = [sys.executable, "-m", "tta_bench.cli.main", "status", str(folder), *more]
    return subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT).stdout
