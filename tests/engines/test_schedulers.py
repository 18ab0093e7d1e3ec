"""Schedulers that are full, down or wrong, and disks that lose files; without processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import Died, Made, Seen, make_specs, save_made, supervise, supervisor
from tta_bench.engines.base import ENDED, WAITING, State
from tta_bench.engines.job import Entry, JobFolder
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "run", "s")


class Down(Made):
    """A scheduler that takes the first job, refuses the next two, and then takes all."""

    refusals = 0

    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        if self.submitted and self.refusals < 2:
            self.refusals += 1
            raise UserError("sbatch refused the job: Unable to contact slurm controller")
        return super().submit(job, workers)


def die_first(deaths: Counter[str]) -> Callable[[Entry, Store], Record]:
    def act(entry: Entry, store: Store) -> Record:
        if not deaths:
            deaths[entry.spec.digest] += 1
            raise Died("Killed")
        return save_made(entry, store)

    return act


@pytest.mark.parametrize("workers", [1, 2])
def test_a_scheduler_that_is_down_for_a_while_is_asked_again(
    store: Store, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tta_bench.engines.supervise.AGAIN", 0.0)
    engine, seen = Down(workers, die_first(Counter())), Seen()
    records, lost = supervise(engine, store, make_specs(3, 4, 1), seen)
    assert (len(records), lost) == (12, [])
    assert engine.refusals == 2
    assert not engine.cancelled, "workers that run are left alone"
    assert [text for text in seen.warnings if "cannot be replaced yet" in text] == [
        "a worker cannot be replaced yet: sbatch refused the job: Unable to contact slurm controller"
    ]
    assert len(list((store.folder / "jobs").iterdir())) == len(engine.submitted), "refused jobs leave no files"


def test_a_scheduler_that_stays_down_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.supervise.AGAIN", 0.0)
    monkeypatch.setattr("tta_bench.engines.supervise.PATIENCE", 0.0)
    with pytest.raises(UserError, match="Unable to contact slurm controller"):
        supervise(Down(1, die_first(Counter())), store, make_specs(2, 2, 1))


def test_the_cause_of_an_end_is_shown_even_if_workers_cannot_be_cancelled(store: Store) -> None:
    class Unreachable(Made):
        def state(self, job: JobFolder) -> list[State]:
            raise UserError("the head is gone")

        def cancel(self, job: JobFolder) -> None:
            raise UserError("scancel failed")

    seen = Seen()
    with pytest.raises(UserError, match="the head is gone"):
        supervise(Unreachable(1), store, make_specs(1, 1, 1), seen)
    (warning,) = seen.warnings
    assert warning.endswith(" may still run: scancel failed")


class Crowded(Made):
    """A cluster with room for one worker."""

    def state(self, job: JobFolder) -> list[State]:
        return [next(self.steps[job.name, 0], State(ENDED))] + [State(WAITING)] * (job.handle["workers"] - 1)


def test_workers_that_wait_when_all_is_done_are_taken_back(store: Store) -> None:
    engine, specs, seen = Crowded(3), make_specs(3, 1, 1), Seen()
    records, lost = supervise(engine, store, specs, seen)
    assert (len(records), lost) == (3, [])
    assert set(seen.queued) == {2}
    assert len(engine.withdrawn) == 1


class Drained(Made):
    """A cluster whose scheduler holds the first worker for ever, since its node failed to start it."""

    def state(self, job: JobFolder) -> list[State]:
        first = min(name for name, _ in self.steps)
        return [State(ENDED, "launch failed requeued held")] if job.name == first else super().state(job)


def test_a_worker_that_its_scheduler_holds_is_replaced(store: Store) -> None:
    engine, seen = Drained(1), Seen()
    records, lost = supervise(engine, store, make_specs(3, 1, 1), seen)
    assert (len(records), lost) == (3, [])
    assert seen.warnings == ["worker 0 died (launch failed requeued held)"]
    assert engine.submitted == [1, 1]
    assert sorted(engine.withdrawn) == sorted({name for name, _ in engine.steps}), "the held one, too"


def test_waiting_workers_of_an_earlier_command_are_left_alone(store: Store) -> None:
    engine, specs = Crowded(3), make_specs(3, 1, 1)
    supervisor(engine, store, specs).submit(3)
    supervise(engine, store, specs[:1])
    assert not engine.withdrawn


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would go on for ever fails after ten seconds."""
    end = time.monotonic() + 10

    def sleep(seconds: float) -> None:
        assert time.monotonic() < end, "the supervisor never ends"

    monkeypatch.setattr("tta_bench.engines.supervise.time.sleep", sleep)


def vanish(times: int) -> Callable[[Entry, Store], Record]:
    """Somebody moves the record of m1 away before the supervisor has read it."""
    gone: Counter[str] = Counter()

    def act(entry: Entry, store: Store) -> Record:
        record = save_made(entry, store)
        if entry.spec.method == "m1" and gone["m1"] < times:
            gone["m1"] += 1
            store.set_cell_aside(record.cell)
        return record

    return act


def test_a_record_that_is_gone_is_made_again(store: Store, soon: None) -> None:
    engine = Made(1, vanish(1))
    records, lost = supervise(engine, store, make_specs(3, 1, 1))
    assert (len(records), lost) == (3, [])
    assert engine.submitted == [1, 1]


def test_a_record_that_is_always_gone_is_lost_with_the_reason(store: Store, soon: None) -> None:
    engine = Made(1, vanish(99))
    records, lost = supervise(engine, store, make_specs(3, 1, 1), retries=1)
    assert sorted(record.cell.spec.method for record in records.values()) == ["m2", "source"]
    (one,) = lost
    assert one.spec.method == "m1"
    assert one.reason == "workers ended without leaving its record (tried 2 times)"


class Late(Store):
    """A network disk that lists the last record later than it can be opened."""

    looks = 0

    def record_names(self) -> list[str]:
        self.looks += 1
        found = sorted(super().record_names())
        return found[:-1] if self.looks < 20 else found


def test_a_record_that_is_listed_late_is_not_made_again(store: Store, soon: None) -> None:
    done: Counter[str] = Counter()

    def count(entry: Entry, store: Store) -> Record:
        done[entry.spec.method] += 1
        return save_made(entry, store)

    records, lost = supervise(Made(1, count), Late(store.folder), make_specs(3, 1, 1), retries=9)
    assert (len(records), lost) == (3, [])
    assert done == {"source": 1, "m1": 1, "m2": 1}
