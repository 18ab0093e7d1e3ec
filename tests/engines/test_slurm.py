"""A real Slurm: the same records as a plain run, whoever is killed meanwhile."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import slurm
from tests.support.engine_runs import (
    CELLS,
    ENVIRONMENT,
    home,
    kill_worker,
    lives,
    ran,
    results,
    run,
    start,
    status,
    wait_for,
    working,
)
from tests.support.plugins import install
from tta_bench.engines.job import JobFolder
from tta_bench.records.store import Store

__all__ = ["home"]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing())]

NAP = """
import time
import torch
from tta_bench import Method

class Nap(Method):
    \"\"\"Source, after a nap.\"\"\"
    paper = "nobody, 2026"
    adapts = "nothing"
    passes = "1 forward"

    def __init__(self, model, *, num_classes, batch_size=64, seconds: float = 1.0):
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.model.eval().requires_grad_(False)
        self.seconds = seconds

    @torch.no_grad()
    def adapt(self, batch):
        time.sleep(self.seconds)
        return self.model(batch)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Cluster]:
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


@pytest.fixture(autouse=True)
def _two_idle_nodes(cluster: slurm.Cluster) -> None:
    cluster.recover()


def end_of(process: subprocess.Popen[str], cluster: slurm.Cluster) -> str:
    """What a successful run has shown."""
    try:
        shown, errors = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        shown, errors = process.communicate()
        raise AssertionError(f"{shown}{errors}\n{cluster.describe()}") from None
    assert process.returncode == 0, shown + errors
    return shown


def test_slurm_gives_the_records_of_a_plain_run_whoever_is_killed(home: Path, cluster: slurm.Cluster) -> None:
    folder = home / "slurm"
    first = start(home, "slurm", "--on", "slurm", "--jobs", 2)
    kill_worker(folder)
    cluster.kill("slurmctld")
    first.kill()  # the supervisor
    first.communicate()
    cluster.kill("slurmd-n1")
    cluster.start_controller()
    cluster.start_node("n1")
    done = run(home, "slurm", "--on", "slurm", "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results(folder) == results(home / "plain")
    assert ran(folder) <= CELLS


def test_slurm_refuses_a_partition_that_does_not_exist(home: Path, cluster: slurm.Cluster) -> None:
    done = run(home, "partition", "--on", "slurm", "--methods", "source", "--tasks", "fog", "--slurm", "partition=gpu")
    assert done.returncode == 2
    assert done.stderr.strip().startswith("tta-bench: error: sbatch refused the job: ")
    assert "invalid partition" in done.stderr.lower()
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_detached_slurm_job_is_seen_and_cancelled(home: Path, cluster: slurm.Cluster) -> None:
    done = run(home, "detached", "--on", "slurm", "--jobs", 1, "--detach")
    assert done.returncode == 0, done.stderr
    assert "Started job " in done.stdout
    wait_for(lambda: working(home / "detached"))
    shown = status(home / "detached", "--cancel")
    assert "1 running" in shown
    assert "Cancelled 1 job." in shown
    after = wait_for(lambda: _ended(home / "detached"))
    assert "was stopped by SIGTERM" in after
    assert not list((home / "detached" / "cells").glob(".*")), "the current cell is dropped cleanly"


def _ended(folder: Path) -> str:
    shown = status(folder)
    return shown if "(ended)" in shown else ""


def test_a_worker_takes_no_new_cell_after_the_early_signal_and_is_replaced(home: Path, cluster: slurm.Cluster) -> None:
    folder = home / "early"
    first = start(home, "early", "--on", "slurm", "--jobs", 1)
    life = wait_for(lambda: working(folder))
    (job,) = JobFolder.all(Store(folder))
    cluster.call("scancel", "--batch", "--signal=USR1", str(job.handle["id"]))
    assert "WARNING" not in end_of(first, cluster), "nothing was lost"
    (stopped,) = [one for one in lives(folder) if one.pid == life.pid]
    assert stopped.exit == "was stopped"
    assert stopped.spec == "", "its last cell is finished"
    assert len(JobFolder.all(Store(folder))) == 2
    assert results(folder) == results(home / "plain")
    assert ran(folder) <= CELLS


def test_a_cell_that_is_longer_than_the_time_limit_is_lost_with_the_reason(
    home: Path, cluster: slurm.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(home / "site", "nap", "nap = nap:Nap", NAP)
    monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", str(home / "site"))
    which = ("--methods", "source,nap", "--set", "nap.seconds=60", "--tasks", "fog", "--seeds", 0)
    done = run(home, "limit", *which, "--on", "slurm", "--jobs", 1, "--slurm", "time=1", "--retries", 0)
    assert done.returncode == 1, done.stdout + done.stderr
    (lost,) = [line for line in done.stdout.splitlines() if ": lost: " in line]
    assert lost.startswith("nap (seconds=60) on fog, seed 0: lost: worker 0 on ")
    assert "was stopped by SIGTERM: " in lost
    assert "DUE TO TIME LIMIT" in lost
    assert lost.endswith("(tried once)")
    assert [record.cell.spec.method for record in Store.open(home / "limit").records()] == ["source"]
    assert not list((home / "limit" / "cells").glob(".*")), "the cell is dropped cleanly"


def test_a_node_that_never_comes_back_costs_its_running_cell(home: Path, cluster: slurm.Cluster) -> None:
    folder = home / "node"
    first = start(home, "node", "--on", "slurm", "--jobs", 2)
    wait_for(lambda: working(folder))
    cluster.lose("n1")
    end_of(first, cluster)
    assert results(folder) == results(home / "plain")
    assert ran(folder) <= CELLS


def test_the_reason_is_shown_for_which_workers_wait(home: Path, cluster: slurm.Cluster) -> None:
    folder = home / "drained"
    cluster.call("scontrol", "update", "nodename=n1,n2", "state=drain", "reason=test")
    first = start(home, "drained", "--on", "slurm", "--jobs", 1)
    reason = wait_for(lambda: _waiting(folder))
    assert "nodes" in reason.lower(), reason
    time.sleep(5)  # the command asks every two seconds
    cluster.call("scontrol", "update", "nodename=n1,n2", "state=resume")
    shown = end_of(first, cluster)
    assert f"1 worker queued: {reason}" in shown
    assert results(folder) == results(home / "plain")


def _waiting(folder: Path) -> str:
    """Why worker 0 waits."""
    if not Store(folder).manifest.exists():
        return ""
    found = re.search(r"waiting, 0 cells done \((.*)\)$", status(folder), re.MULTILINE)
    return found[1] if found else ""
