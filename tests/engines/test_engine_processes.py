"""Processes of this machine: the same records as a plain run, whoever is killed meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import tta_bench
from tests.support.engine_runs import (
    CELLS,
    children,
    home,
    kill_adapt_processes,
    ran,
    results,
    run,
    start,
    status,
    wait_for,
    working,
)
from tta_bench.engines.job import JobFolder
from tta_bench.errors import UserError
from tta_bench.records.store import Store

__all__ = ["home"]


@pytest.mark.slow
def test_local_jobs_give_the_records_of_a_plain_run_though_adapting_processes_die(home: Path) -> None:
    folder = home / "local"
    first = start(home, "local", "--jobs", 2, "--tasks", "fog,snow")
    kill_adapt_processes(folder)
    shown, errors = first.communicate(timeout=600)
    assert first.returncode == 0, shown + errors
    expected = {r.cell.key for r in Store.open(home / "plain").records() if r.cell.name != "contrast"}
    assert results(folder) == {key: found for key, found in results(home / "plain").items() if key in expected}
    assert ran(folder) == len(expected) == 8
    environments = [record.measured.environment for record in Store.open(folder).records()]
    assert all(found["shared"] and found["host"] for found in environments)
    assert {found["process"] for found in environments} == {"worker"}
    assert f"(ended): {len(expected)} of 8 cells done, 0 running, 0 waiting, 0 failed" in status(folder)


@pytest.mark.slow
def test_a_finished_run_is_reused(home: Path) -> None:
    done = run(home, "whole", "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(home / "whole") == results(home / "plain")
    assert ran(home / "whole") == CELLS
    assert f"Reused {CELLS} of {CELLS} cells" in run(home, "whole", "--jobs", 2).stdout


@pytest.mark.slow
def test_a_killed_local_worker_and_supervisor_lose_nothing(home: Path) -> None:
    folder = home / "killed"
    first = start(home, "killed", "--jobs", 2)
    worker = wait_for(lambda: working(folder)).pid
    adapting = children(worker)
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: len(JobFolder.all(Store(folder))) == 2)  # the replacement
    first.kill()
    first.communicate()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in adapting), 60)  # they end with their worker
    done = run(home, "killed", "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(folder) == results(home / "plain")
    assert ran(folder) <= CELLS, "no cell is run twice"


@pytest.mark.slow
def test_a_cancelled_run_says_so_and_goes_on(home: Path) -> None:
    folder = home / "cancelled"
    first = start(home, "cancelled", "--jobs", 2)
    wait_for(lambda: working(folder))
    assert "Cancelled 1 job." in status(folder, "--cancel")
    shown, errors = first.communicate(timeout=120)
    assert first.returncode == 130, shown + errors
    saved = len(Store.open(folder).records())
    last = f"Cancelled: {saved} of {CELLS} cells are saved in {folder}. Run the same command again to go on."
    assert shown.strip().splitlines()[-1] == last
    assert not list(folder.glob("claims/*.tries")), "a cancelled cell was not tried in vain"
    assert "failed" not in shown
    done = run(home, "cancelled", "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(folder) == results(home / "plain")


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
