"""A real Ray cluster: the same records as a plain run, whoever is killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ray_cluster
from tests.support.engine_runs import (
    CELLS,
    home,
    kill_worker,
    ran,
    results,
    run,
    start,
    wait_for,
    working,
)
from tta_bench.engines.job import JobFolder
from tta_bench.records.store import Store

__all__ = ["home"]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(ray_cluster.missing()), reason=ray_cluster.missing())]


@pytest.fixture
def ray() -> Iterator[ray_cluster.Cluster]:
    found = ray_cluster.Cluster()
    yield found
    found.stop()


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
    assert ran(folder) <= CELLS
    assert all(record.measured.environment["shared"] for record in Store.open(folder).records()), "one of several cores"


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
