"""Methods adapt in worker processes: nothing they do there reaches another method, the labels or the run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.torture import hostile
from tests.support.records import changed, make_record
from tests.support.works import requests, works
from tta_bench.errors import CellFailed
from tta_bench.isolation.host import WorkHost, ignore, run_cell
from tta_bench.isolation.pool import Worker, Workers
from tta_bench.records.store import Store
from tta_bench.runs import execute
from tta_bench.runs.alarms import CellAlarm
from tta_bench.runs.bind import Binder
from tta_bench.runs.execute import SourceSeconds, run_at, run_left
from tta_bench.runs.site import Site
from tta_bench.runs.watcher import Watcher

ISOLATED = Site(device="cpu", in_process=False)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers() as found:
        yield found


def test_a_worker_gives_what_this_process_gives(small_suite: Path, workers: Workers) -> None:
    for work in works(small_suite, methods=("source", "tent", "eata"), limit=96, tasks=("contrast",)):
        here, there = run_cell(work), run_cell(work, adapt=workers.adapt)
        assert there[1].to_bytes() == here[1].to_bytes(), "bit for bit"
        assert there[0].scores == here[0].scores
        for name in ("sample_forwards", "sample_backwards", "resets", "remarks", "prepare_forwards"):
            assert getattr(there[0].measured, name) == getattr(here[0].measured, name)
        handed = "read" if work.cell.spec.method == "eata" else ""
        assert there[0].measured.prepared == handed, "learned here, handed over"


def test_what_a_worker_learns_is_kept(small_suite: Path, workers: Workers) -> None:
    (work,) = works(small_suite, methods=("eata",), limit=32, tasks=("contrast",))
    first, _ = run_cell(work, adapt=workers.adapt)
    second, _ = run_cell(work, adapt=workers.adapt)
    assert (first.measured.prepared, second.measured.prepared) == ("learned", "read")
    assert first.measured.prepare_forwards == second.measured.prepare_forwards > 0


def test_a_killed_worker_gets_a_second_chance(small_suite: Path, tmp_path: Path) -> None:
    binder = Binder(ISOLATED)
    (work,) = works(small_suite, methods=("source",), limit=64, tasks=("contrast",))
    deaths = []

    def kill_once(images: int, accuracy: float, prediction: object) -> None:
        warm = [child for child in children() if "isolation.child" in child[1]]
        if not deaths and images >= 32:
            deaths.extend(warm)
            for pid, _ in warm:
                os.kill(pid, signal.SIGKILL)

    record, _ = run_at(work, binder, kill_once)
    binder.workers.close()
    assert deaths
    assert (record.status, record.scores.samples) == ("done", 64)
    time.sleep(0.1)
    assert not [child for child in children() if "isolation.child" in child[1]], "no worker outlives its run"


def children() -> list[tuple[int, str]]:
    """The processes that this one started, and their command lines."""
    found = subprocess.run(
        ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True
    )
    rows = (line.split(None, 1) for line in found.stdout.splitlines() if "defunct" not in line)
    return [(int(pid), words) for pid, words in rows]


def test_a_time_limit_may_be_months(small_suite: Path) -> None:
    """The system's timers overflow after 25 days."""
    (work,) = works(small_suite, methods=("source",), limit=64, tasks=("contrast",))
    binder = Binder(replace(ISOLATED, time_limit=1000 * 3600.0))
    with closing(binder.workers):
        record, _ = run_at(work, binder, time_limit=1000 * 3600.0)
    assert (record.status, record.reason) == ("done", "")


def test_a_time_limit_ends_a_cell(small_suite: Path) -> None:
    (work,) = works(small_suite, methods=("tent",), limit=64, tasks=("contrast",))
    with Workers() as own, pytest.raises(CellFailed, match=r"the cell took longer than 0.01 s \(--time-limit\)"):
        own.adapt(WorkHost(work, ignore), time_limit=0.01)


def test_a_limit_that_was_asked_for_holds_for_a_single_batch_too(
    small_suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "PATIENCE", 0.01)
    (work,) = works(small_suite, methods=("source",), limit=64, tasks=("contrast",))
    places = Binder(ISOLATED), Binder(replace(ISOLATED, time_limit=300.0))
    with closing(places[0].workers), pytest.raises(CellFailed, match=r"a single batch took longer than 0.01 s"):
        run_at(work, places[0])
    with closing(places[1].workers):
        record, _ = run_at(work, places[1], time_limit=300.0)
    assert record.measured.environment["process"] == "worker"


def test_the_default_limit_is_a_multiple_of_sources_time(small_suite: Path, tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "small")
    asked = requests(small_suite, methods=("source", "tent"), limit=32, tasks=("contrast",))
    records = list(run_left(asked, Binder(Site(device="cpu", in_process=True)), store, Watcher()).values())
    seconds = SourceSeconds(records)
    assert {record.cell.spec.method for record in records} == {"source", "tent"}
    assert [seconds.limit(record.cell) for record in records] == [600.0, 600.0], "at least ten minutes"
    assert SourceSeconds([]).limit(records[0].cell) is None


class Broken(Watcher):
    """Its progress bar, or its warnings, cannot be written."""

    def __init__(self, on: str) -> None:
        self.on = on

    def on_batch(self, images: int, accuracy: float) -> None:
        if self.on == "batch":
            raise BrokenPipeError("my progress bar")

    def on_warning(self, text: str) -> None:
        raise BrokenPipeError("my progress bar")


@pytest.mark.parametrize("in_process", [False, True])
@pytest.mark.parametrize("on", ["batch", "warning"])
def test_an_error_of_the_watcher_is_not_the_methods(
    small_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: str, in_process: bool
) -> None:
    store = Store.create(tmp_path / "run", "small")
    asked = requests(small_suite, methods=("source", "tent"), limit=64, tasks=("contrast",))
    binder = Binder(replace(ISOLATED, in_process=in_process))
    monkeypatch.setattr(CellAlarm, "_say_collapse", lambda alarm, found: alarm._watcher.on_warning("collapsed"))
    with closing(binder.workers), pytest.raises(BrokenPipeError, match="my progress bar"):
        run_left(asked, binder, store, Broken(on))
    assert [record.status for record in store.records()] == ["done"] * (on == "warning"), "Source gives no warning"


@pytest.mark.parametrize(
    ("method", "times"), [("tent", 50), ("foa", 300), ("cotta", 400), ("memo", 2000), ("dda", 150_000)]
)
def test_an_expensive_method_may_take_longer(method: str, times: float) -> None:
    source = make_record("source")
    seconds = SourceSeconds([changed(source, seconds={"adapt": 90.0, "load": 10.0})])
    assert seconds.limit(make_record(method).cell) == 100 * times


def test_a_batch_may_take_its_share_of_the_cells_limit(small_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "PATIENCE", 0.01)
    (work,) = works(small_suite, methods=("source",), limit=64, tasks=("contrast",))
    binder = Binder(ISOLATED)
    with closing(binder.workers):
        record, _ = run_at(work, binder, time_limit=300.0)
    assert record.status == "done"


def test_a_damaged_message_is_a_failure_of_the_cell(small_suite: Path) -> None:
    (work,) = works(small_suite, methods=("source",), limit=64, tasks=("contrast",))
    worker = Worker()
    worker._connection, theirs = __import__("multiprocessing").Pipe()
    theirs.send_bytes(b"nonsense")
    with pytest.raises(CellFailed, match="its process sent a damaged message"):
        worker.adapt(WorkHost(work, ignore), None)
    worker.end()


@pytest.mark.slow
def test_hostile_plug_ins_are_contained() -> None:
    deeds = ("labels", "segfault", "copied-model")  # `make torture` has all
    outcome = hostile.attack(deeds, limit=64, time_limit="300s", tasks=("contrast",))
    assert (outcome.uncontained, outcome.honest, outcome.touched) == ([], 3, [])
    found = outcome.verdicts
    assert found["labels"] == "ran as Source does"
    assert found["segfault"] == "its process was killed by SIGSEGV"
    assert "computes as much as 9.0 forwards per image outside the counted passes" in found["copied-model"]


def test_predictions_are_those_of_a_run_in_one_process(small_suite: Path, tmp_path: Path) -> None:
    asked = requests(small_suite, methods=("source", "tent"), limit=64)
    found = []
    for name, is_alone in (("one", True), ("two", False)):
        binder = Binder(Site(device="cpu", in_process=is_alone))
        store = Store.create(tmp_path / name, "small")
        records = run_left(asked, binder, store, Watcher())
        binder.workers.close()
        found.append([store.predictions(record) for record in records.values()])
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one.confidence, two.confidence)
