"""The processes of the local engine: which GPU each gets, and what happens when one dies too early."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import make_job, make_specs
from tta_bench.engines import local
from tta_bench.engines.base import State
from tta_bench.engines.job import JobFolder
from tta_bench.engines.local import Local
from tta_bench.errors import UserError
from tta_bench.records.store import Store
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.system import cores

POPEN = subprocess.Popen
IDLE = "import time; time.sleep(600)"  # a worker that rests


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "run", "s")


class Started:
    """The processes that a test has started, and the environment of each."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environments: list[dict[str, str]] = []

    def open(self, words: list[str], **options: Any) -> subprocess.Popen[bytes]:
        self.environments.append(options.get("env", {}))
        self.processes.append(POPEN(words, **options))
        return self.processes[-1]

    @property
    def gpus(self) -> list[tuple[str, bool]]:
        """The GPU of each process, and whether it counts as shared."""
        return [(e["CUDA_VISIBLE_DEVICES"], "TTA_BENCH_SHARED_DEVICE" in e) for e in self.environments]

    def end(self, index: int) -> None:
        self.processes[index].kill()
        self.processes[index].wait()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    """Workers that import nothing."""
    found = Started()
    monkeypatch.setattr(local, "_BOOT", IDLE)
    monkeypatch.setattr(subprocess, "Popen", found.open)
    monkeypatch.setenv("TTA_BENCH_SIMULATED_GPUS", "8")
    monkeypatch.setattr(local, "PATIENCE", 0.2)
    yield found
    for process in found.processes:
        process.kill()
        with process:  # closes its pipes
            process.wait()


def submit(engine: Local, store: Store, workers: int) -> JobFolder:
    content = make_job("local", workers, make_specs(4, 1, 1))
    job = JobFolder.create(store, content)
    job.keep_handle(content, engine.submit(job, workers))
    return job


def test_a_replacement_gets_the_gpu_of_the_worker_that_died(store: Store, started: Started) -> None:
    engine = Local(RunOptions(gpus=(0, 1, 2, 3)))
    submit(engine, store, 4)
    assert started.gpus == [("0", False), ("1", False), ("2", False), ("3", False)]
    started.end(2)
    submit(engine, store, 1)
    assert started.gpus[4:] == [("2", False)]


def test_a_later_supervisor_knows_the_gpus_of_the_earlier_one(store: Store, started: Started) -> None:
    job = submit(Local(RunOptions(gpus=(0, 1))), store, 2)
    started.end(1)
    later = Local(RunOptions(gpus=(0, 1)))
    assert later.state(job) == [State("running"), State("ended")]
    submit(later, store, 1)
    assert started.gpus[2:] == [("1", False)]


def test_a_worker_beside_another_counts_as_shared(store: Store, started: Started) -> None:
    """Here the worker that is replaced does not end in time."""
    engine = Local(RunOptions(gpus=(0, 1)))
    submit(engine, store, 2)
    submit(engine, store, 1)
    assert started.gpus[2:] == [("0", True)]


def test_workers_in_excess_are_spread_over_the_gpus(store: Store, started: Started) -> None:
    submit(Local(RunOptions(gpus=(1, 3), jobs=4)), store, 4)
    assert started.gpus == [("1", True), ("3", True), ("1", True), ("3", True)]


def test_workers_that_were_started_early_get_the_job(store: Store, started: Started) -> None:
    engine = Local(RunOptions(jobs=3))
    engine.warm_up(JobFolder(store, "j"), 3, Site())
    job = submit(engine, store, 2)
    assert [slot["pid"] for slot in job.handle["processes"]] == [process.pid for process in started.processes[:2]]
    assert started.processes[2].poll() is not None, "the third has nothing to do"


def test_a_worker_that_dies_before_it_gets_its_job_is_seen(store: Store, started: Started) -> None:
    engine = Local(RunOptions(jobs=2))
    engine.warm_up(JobFolder(store, "j"), 2, Site())
    started.end(0)
    job = submit(engine, store, 2)
    assert engine.state(job) == [State("ended", "killed by SIGKILL"), State("running")]


def test_a_machine_without_room_for_a_process_is_one_line(
    store: Store, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: Any, **options: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    engine = Local(RunOptions(jobs=2))
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(UserError, match=r"a worker cannot be started \(Resource temporarily unavailable\): try fewer"):
        submit(engine, store, 2)


def test_copies_get_their_share_of_the_cores_before_torch_is_imported(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {})
    shares: list[str] = []
    monkeypatch.setattr(local, "copies", lambda works, outlive: shares.append(os.environ["OMP_NUM_THREADS"]) or [])
    engine = Local(RunOptions(jobs=2))
    engine.forks = True
    engine.warm_up(JobFolder(store), 0, Site())
    assert shares == [str(max(1, cores() // 2))]


@pytest.mark.parametrize(("gpus", "forks"), [((0, 1), True), ((), False)])
def test_workers_on_gpus_or_of_a_notebook_are_no_copies(
    store: Store, started: Started, monkeypatch: pytest.MonkeyPatch, gpus: tuple[int, ...], forks: bool
) -> None:
    monkeypatch.setattr(local, "copies", lambda works, outlive: pytest.fail("copied"))
    engine = Local(RunOptions(gpus=gpus, jobs=2))
    engine.forks = forks
    engine.warm_up(JobFolder(store), 2, Site())
    assert len(started.processes) == 2
    engine.close()
