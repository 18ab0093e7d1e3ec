"""Processes of this machine: the same records as a plain run, whoever is killed meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tta_bench
from tests.support.engine_runs import (
    CELLS,
    ended,
    home,
    kill_worker,
    results,
    run,
    start,
    wait_for,
)
from tta_bench.engines.job import JobFolder
from tta_bench.errors import UserError
from tta_bench.records.store import Store

__all__ = ["home"]


@pytest.mark.slow
def test_local_jobs_give_the_records_of_a_plain_run(home: Path) -> None:
    done = run(home, "local", "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(home / "local") == results(home / "plain")
    assert len(ended(home / "local")) == len(set(ended(home / "local"))) == CELLS
    environments = [record.measured.environment for record in Store.open(home / "local").records()]
    assert all(found["shared"] and found["host"] for found in environments)
    again = run(home, "local", "--jobs", 2)
    assert f"Reused {CELLS} of {CELLS} cells" in again.stdout
    shown = subprocess.run(
        [sys.executable, "-m", "tta_bench.cli.main", "status", str(home / "local")], capture_output=True, text=True
    )
    assert f"(ended): {CELLS} of {CELLS} cells done, 0 running, 0 waiting, 0 failed" in shown.stdout


@pytest.mark.slow
def test_a_killed_local_worker_and_coordinator_lose_nothing(home: Path) -> None:
    folder = home / "killed"
    first = start(home, "killed", "--jobs", 2)
    kill_worker(folder)
    wait_for(lambda: len(JobFolder.all(Store(folder))) == 2)  # the replacement
    first.kill()
    first.communicate()
    done = run(home, "killed", "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(folder) == results(home / "plain")
    assert len(ended(folder)) == len(set(ended(folder))), "no cell is finished twice"


@pytest.mark.slow
def test_the_call_runs_on_an_engine(home: Path) -> None:
    found = tta_bench.run(
        ["source"], str(home / "suite.yaml"), tasks=["fog"], limit=64, device="cpu", out=home / "call", jobs=2
    )
    assert [record.status for record in found.records] == ["done", "done"]
    assert found.lost == []
    with pytest.raises(UserError, match="unknown task|has no task"):
        tta_bench.run(["source"], str(home / "suite.yaml"), tasks=["smoke"], out=home / "bad", jobs=2)


@pytest.mark.slow
def test_a_mistake_that_only_checks_can_find_leaves_no_folder(home: Path) -> None:
    done = run(home, "mistake", "--jobs", 2, "--set", "tent.lr=-1")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "lr is -1" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (home / "mistake").exists()
