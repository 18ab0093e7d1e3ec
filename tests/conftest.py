"""Shared by all tests: one thread, a small suite, and a way to run the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.support.cli import SMALL, Cli
from tests.support.folders import make_run
from tta_bench.cli.main import main
from tta_bench.registry import installed

torch.set_num_threads(1)
os.environ["TTA_BENCH_IN_PROCESS"] = "1"  # a worker takes seconds to start; runs/test_workers.py has its own


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run `tta-bench` in this process; returns exit status, stdout and stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        try:
            status = main([str(word) for word in words])
        except SystemExit as stop:  # argparse exits this way
            status = int(stop.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture(autouse=True)
def _no_given_methods() -> Iterator[None]:
    """Classes that a test registers end with it."""
    yield
    installed().given.clear()


@pytest.fixture
def small_suite(tmp_path: Path) -> Path:
    """A suite file of two tasks, quick with --limit."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder."""
    return make_run(tmp_path / "run")
