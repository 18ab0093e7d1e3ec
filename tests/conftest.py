"""Shared by all tests: a place of their own, one thread, a small suite, and a way to run the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.isolation import Session, enter

# Before anything else is imported: the client of the Hugging Face hub reads its variables at once. Workers of xdist
# inherit the environment of the process that started them.
SESSION = None if "PYTEST_XDIST_WORKER" in os.environ else Session()

# Readline sets these in the process that starts xdist's workers, and they inherit them.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests.support.cli import SMALL, Cli  # noqa: E402
from tests.support.folders import make_run  # noqa: E402
from tta_bench.cli.main import main  # noqa: E402
from tta_bench.registry import installed  # noqa: E402

torch.set_num_threads(1)
# The same examples in every run: CI does not fail by luck. `--hypothesis-profile=default` looks for others.
settings.register_profile("repeatable", derandomize=True, database=None)
settings.load_profile("repeatable")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tests that pass and leave something behind have failed."""
    if SESSION is not None and (left := SESSION.end()):
        print("\nThe tests added or removed files of the checkout or the user's caches:", *left[:20], sep="\n  ")
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True, scope="session")
def _outside_of_the_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run fixtures that several tests share in a folder of the session."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("session"))
    yield
    os.chdir(before)


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path) -> Iterator[None]:
    """Run every test in its own folder; afterwards, reset the variables and methods that it has set."""
    folder, environment = Path.cwd(), dict(os.environ)
    os.chdir(tmp_path)
    yield
    os.chdir(folder)
    enter(environment)
    installed().given.clear()


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
