"""Engines with real processes: the same records as a plain run, whoever is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tta_bench
from tests import ray_cluster, slurm
from tests.test_many_processes import SUITE
from tta_bench.engines.job import JobFolder
from tta_bench.engines.journal import Life
from tta_bench.errors import UserError
from tta_bench.records.store import Store

CELLS = 12
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite, and a plain run of it."""
    home = tmp_path_factory.mktemp("engines")
    (home / "suite.yaml").write_text(SUITE)
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
    return {r.cell.key: (r.predictions, r.top1, r.sample_forwards, r.sample_backwards) for r in records}


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


@pytest.mark.slow
def test_local_jobs_give_the_records_of_a_plain_run(home: Path) -> None:
    done = run(home, "local", "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(home / "local") == results(home / "plain")
    assert len(ended(home / "local")) == len(set(ended(home / "local"))) == CELLS
    environments = [record.environment for record in Store.open(home / "local").records()]
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
    assert "learning rate" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (home / "mistake").exists()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Cluster]:
    if reason := slurm.missing():
        pytest.skip(reason)
    found = slurm.Cluster(tmp_path_factory.mktemp("slurm"))
    for folder in (found.folder, *found.folder.parents):
        if folder.is_relative_to("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)  # munge reads its key as another user
    found.start()
    before, os.environ["SLURM_CONF"] = os.environ.get("SLURM_CONF"), str(found.conf)
    ENVIRONMENT["SLURM_CONF"] = str(found.conf)
    yield found
    found.stop()
    if before is None:
        del os.environ["SLURM_CONF"]


@pytest.mark.slow
def test_slurm_gives_the_records_of_a_plain_run_whoever_is_killed(home: Path, cluster: slurm.Cluster) -> None:
    folder = home / "slurm"
    first = start(home, "slurm", "--on", "slurm", "--jobs", 2)
    kill_worker(folder)
    cluster.kill("slurmctld")
    first.kill()  # the coordinator
    first.communicate()
    cluster.kill("slurmd-n1")
    cluster.start_controller()
    cluster.start_node("n1")
    done = run(home, "slurm", "--on", "slurm", "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(folder) == results(home / "plain")
    assert len(ended(folder)) == len(set(ended(folder)))


@pytest.mark.slow
def test_slurm_refuses_a_partition_that_does_not_exist(home: Path, cluster: slurm.Cluster) -> None:
    done = run(home, "partition", "--on", "slurm", "--methods", "source", "--tasks", "fog", "--slurm", "partition=gpu")
    assert done.returncode == 2
    assert done.stderr.strip().startswith("tta-bench: error: sbatch refused the job: ")
    assert "invalid partition" in done.stderr.lower()
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_detached_slurm_job_is_seen_and_cancelled(home: Path, cluster: slurm.Cluster) -> None:
    done = run(home, "detached", "--on", "slurm", "--jobs", 1, "--detach")
    assert done.returncode == 0, done.stderr
    assert "Started job " in done.stdout
    wait_for(lambda: working(home / "detached"))
    status = [sys.executable, "-m", "tta_bench.cli.main", "status", str(home / "detached")]
    shown = subprocess.run([*status, "--cancel"], capture_output=True, text=True, env=ENVIRONMENT)
    assert "1 running" in shown.stdout
    assert "Cancelled 1 jobs" in shown.stdout
    after = wait_for(lambda: _ended(status))
    assert "was stopped by SIGTERM" in after
    assert not list((home / "detached" / "cells").glob(".*")), "the current cell is dropped cleanly"


def _ended(status: list[str]) -> str:
    shown = subprocess.run(status, capture_output=True, text=True, env=ENVIRONMENT).stdout
    return shown if "(ended)" in shown else ""


@pytest.fixture
def ray() -> Iterator[ray_cluster.Cluster]:
    if reason := ray_cluster.missing():
        pytest.skip(reason)
    found = ray_cluster.Cluster()
    yield found
    found.stop()


@pytest.mark.slow
def test_ray_gives_the_records_of_a_plain_run_whoever_is_killed(home: Path, ray: ray_cluster.Cluster) -> None:
    folder, words = home / "ray", ("--on", f"ray={ray.address}")
    first = start(home, "ray", *words)
    kill_worker(folder)
    wait_for(lambda: len(JobFolder.all(Store(folder))) == 2)  # the replacement, which may not run yet
    first.kill()
    first.communicate()
    ray.kill_node()
    done = run(home, "ray", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(folder) == results(home / "plain")
    assert len(ended(folder)) == len(set(ended(folder)))
    assert all(record.environment["shared"] for record in Store.open(folder).records()), "one of several cores"


@pytest.mark.slow
def test_a_ray_head_that_is_killed_costs_a_restart(home: Path, ray: ray_cluster.Cluster) -> None:
    first = start(home, "head", "--on", f"ray={ray.address}")
    wait_for(lambda: working(home / "head"))
    ray.kill_head()
    first.communicate(timeout=300)
    assert first.returncode != 0
    ray.stop()
    other = ray_cluster.Cluster()
    try:
        done = run(home, "head", "--on", f"ray={other.address}")
    finally:
        other.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(home / "head") == results(home / "plain")
