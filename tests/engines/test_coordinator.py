"""The coordinator, and what it does when workers die; without processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import Died, Made, Seen, coordinate, failed, make_specs, save_made
from tta_bench.engines import Options
from tta_bench.engines.base import ENDED, WAITING, State
from tta_bench.engines.coordinate import Coordinator
from tta_bench.engines.job import JobFolder, Ticket
from tta_bench.engines.journal import Journal
from tta_bench.engines.manual import Manual
from tta_bench.engines.tickets import Hints
from tta_bench.engines.work import Queue
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.runs.listing import Watcher
from tta_bench.runs.site import Site


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "run", "s")


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_every_cell_is_done_once(store: Store, workers: int) -> None:
    done: Counter[str] = Counter()

    def count(ticket: Ticket, store: Store) -> Record:
        done[ticket.spec.digest] += 1
        return save_made(ticket, store)

    specs, seen = make_specs(3, 4, 2), Seen()
    records, lost = coordinate(Made(workers, count), store, specs, seen)
    assert not lost
    assert set(records) == {spec.digest for spec in specs}
    assert set(done.values()) == {1}
    assert len(seen.records) == len(specs)


def test_a_worker_that_dies_is_replaced_and_its_cell_given_out_again(store: Store) -> None:
    deaths: Counter[str] = Counter()

    def die_once(ticket: Ticket, store: Store) -> Record:
        if ticket.spec.method == "m1" and not deaths:
            deaths[ticket.spec.digest] += 1
            raise Died("out of memory")
        return save_made(ticket, store)

    engine, seen = Made(2, die_once), Seen()
    records, lost = coordinate(engine, store, make_specs(3, 4, 1), seen)
    assert not lost
    assert len(records) == 12
    assert engine.submitted == [2, 1], "the replacement does not wait for the others to end"
    assert len(seen.warnings) == 1
    assert "died: first / out of memory" in seen.warnings[0]


def test_a_cell_that_kills_every_worker_is_lost_with_the_logs_last_lines(store: Store) -> None:
    tries: Counter[str] = Counter()

    def die(ticket: Ticket, store: Store) -> Record:
        tries[ticket.spec.method] += 1
        if ticket.spec.method == "m1":
            raise Died("Killed")
        return save_made(ticket, store)

    records, lost = coordinate(Made(2, die), store, make_specs(3, 1, 1), retries=2)
    assert sorted(record.cell.spec.method for record in records.values()) == ["m2", "source"]
    assert tries == {"source": 1, "m2": 1, "m1": 3}
    (one,) = lost
    assert str(one).startswith("m1 on t0, seed 0: lost: worker 0 on ")
    assert str(one).endswith("died: first / Killed (tried 3 times)")


def test_workers_that_never_start_are_not_replaced_for_ever(store: Store) -> None:
    class Broken(Made):
        def _live(self, job: JobFolder, index: int) -> Any:
            job.log(index).write_text("No module named tta_bench\n")
            return iter(())

    engine = Broken(2)
    records, lost = coordinate(engine, store, make_specs(2, 2, 1), retries=1)
    assert not records
    assert len(lost) == 4
    assert sum(engine.submitted) <= 6
    assert "No module named tta_bench" in str(lost[0])


def test_a_method_that_raises_fails_its_cell_once(store: Store) -> None:
    done: Counter[str] = Counter()

    def fail(ticket: Ticket, store: Store) -> Record:
        done[ticket.spec.digest] += 1
        return failed(ticket, store) if ticket.spec.method == "m1" else save_made(ticket, store)

    records, lost = coordinate(Made(2, fail), store, make_specs(2, 2, 1))
    assert not lost
    assert Counter(record.status for record in records.values()) == {"done": 2, "failed": 2}
    assert set(done.values()) == {1}


def test_the_next_coordinator_finds_the_jobs_of_one_that_died(store: Store) -> None:
    engine, specs = Made(2), make_specs(3, 2, 1)
    first = Coordinator(engine, "made", store, Site(), Hints(), Watcher())
    first.detach(specs)
    records, lost = coordinate(engine, store, specs)
    assert not lost
    assert len(records) == 6
    assert engine.submitted == [2], "the running job is followed, nothing is submitted again"


def test_an_interrupt_cancels_running_jobs(store: Store) -> None:
    def interrupt(ticket: Ticket, store: Store) -> Record:
        raise KeyboardInterrupt

    engine = Made(1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        coordinate(engine, store, make_specs(2, 1, 1))
    assert len(engine.cancelled) == 1
    assert engine.closed


def test_a_cell_that_all_workers_refuse_is_lost_with_the_reason(store: Store) -> None:
    class Refusing(Made):
        def _live(self, job: JobFolder, index: int) -> Any:
            journal = Journal(job.journal(index))
            journal.write("worker", host="n1", pid=1)
            queue = Queue(job, job.read(), index)
            while (ticket := queue.take()) is not None:
                journal.write("take", spec=ticket.spec.digest)
                journal.write("refuse", spec=ticket.spec.digest, line="n2 has other weights")
                yield State("running")
            journal.write("exit", why="finished")

    engine = Refusing(2)
    records, lost = coordinate(engine, store, make_specs(2, 1, 1))
    assert not records
    assert {one.reason for one in lost} == {"n2 has other weights"}
    assert engine.submitted == [2]


def test_workers_of_a_manual_job_are_started_by_hand(store: Store) -> None:
    specs, engine = make_specs(2, 1, 1), Manual(Options(jobs=1))

    def coordinator() -> Coordinator:
        return Coordinator(engine, "manual", store, Site(), Hints(), Watcher(), ask=0.0, poll=0.0)

    with pytest.raises(UserError, match="--on manual starts no workers: add --detach"):
        coordinator().run(specs)
    job = coordinator().detach(specs)
    assert engine.state(job) == [State("waiting")]
    made = Made()
    made.content = job.read()
    for _ in made._live(job, 0):
        assert engine.state(job) == [State("unknown")], "only its journal is known"
    assert engine.state(job) == [State("ended")]


def test_a_cell_that_a_time_limit_drops_is_reported_at_once(store: Store) -> None:
    deaths: Counter[str] = Counter()

    def stop_once(ticket: Ticket, store: Store) -> Record:
        if ticket.spec.method == "m1" and not deaths:
            deaths[ticket.spec.digest] += 1
            raise Died("DUE TO TIME LIMIT", exit="was stopped by SIGTERM")
        return save_made(ticket, store)

    engine, seen = Made(1, stop_once), Seen()
    _, lost = coordinate(engine, store, make_specs(2, 2, 1), seen)
    assert not lost
    assert engine.submitted == [1, 1]
    assert seen.warnings == ["worker 0 on n1 was stopped by SIGTERM: first / DUE TO TIME LIMIT"]


class Down(Made):
    """A scheduler that takes the first job, refuses the next two, and then takes all."""

    refusals = 0

    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        if self.submitted and self.refusals < 2:
            self.refusals += 1
            raise UserError("sbatch refused the job: Unable to contact slurm controller")
        return super().submit(job, workers)


def die_first(deaths: Counter[str]) -> Callable[[Ticket, Store], Record]:
    def act(ticket: Ticket, store: Store) -> Record:
        if not deaths:
            deaths[ticket.spec.digest] += 1
            raise Died("Killed")
        return save_made(ticket, store)

    return act


@pytest.mark.parametrize("workers", [1, 2])
def test_a_scheduler_that_is_down_for_a_while_is_asked_again(
    store: Store, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tta_bench.engines.coordinate.AGAIN", 0.0)
    engine, seen = Down(workers, die_first(Counter())), Seen()
    records, lost = coordinate(engine, store, make_specs(3, 4, 1), seen)
    assert (len(records), lost) == (12, [])
    assert engine.refusals == 2
    assert not engine.cancelled, "workers that run are left alone"
    assert [text for text in seen.warnings if "cannot be replaced yet" in text] == [
        "a worker cannot be replaced yet: sbatch refused the job: Unable to contact slurm controller"
    ]
    assert len(list((store.folder / "jobs").iterdir())) == len(engine.submitted), "refused jobs leave no files"


def test_a_scheduler_that_stays_down_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.coordinate.AGAIN", 0.0)
    monkeypatch.setattr("tta_bench.engines.coordinate.PATIENCE", 0.0)
    with pytest.raises(UserError, match="Unable to contact slurm controller"):
        coordinate(Down(1, die_first(Counter())), store, make_specs(2, 2, 1))


def test_the_cause_of_an_end_is_shown_even_if_workers_cannot_be_cancelled(store: Store) -> None:
    class Unreachable(Made):
        def state(self, job: JobFolder) -> list[str]:
            raise UserError("the head is gone")

        def cancel(self, job: JobFolder) -> None:
            raise UserError("scancel failed")

    seen = Seen()
    with pytest.raises(UserError, match="the head is gone"):
        coordinate(Unreachable(1), store, make_specs(1, 1, 1), seen)
    (warning,) = seen.warnings
    assert warning.endswith(" may still run: scancel failed")


def test_workers_of_a_cancelled_job_are_not_replaced(store: Store) -> None:
    def cancel(ticket: Ticket, store: Store) -> Record:
        if ticket.spec.method != "source":
            (job,) = JobFolder.all(store)
            job.note_cancelled()
            raise Died("", exit="was stopped by SIGTERM")
        return save_made(ticket, store)

    engine = Made(2, cancel)
    records, lost = coordinate(engine, store, make_specs(3, 1, 1))
    assert [record.cell.spec.method for record in records.values()] == ["source"]
    assert {one.reason for one in lost} == {"its job was cancelled with `tta-bench status --cancel`"}
    assert engine.submitted == [2]


class Crowded(Made):
    """A cluster with room for one worker."""

    def state(self, job: JobFolder) -> list[State]:
        return [next(self.steps[job.name, 0], State(ENDED))] + [State(WAITING)] * (job.handle["workers"] - 1)


def test_workers_that_wait_when_all_is_done_are_taken_back(store: Store) -> None:
    engine, specs, seen = Crowded(3), make_specs(3, 1, 1), Seen()
    records, lost = coordinate(engine, store, specs, seen)
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
    records, lost = coordinate(engine, store, make_specs(3, 1, 1), seen)
    assert (len(records), lost) == (3, [])
    assert seen.warnings == ["worker 0 died (launch failed requeued held)"]
    assert engine.submitted == [1, 1]
    assert sorted(engine.withdrawn) == sorted({name for name, _ in engine.steps}), "the held one, too"


def test_waiting_workers_of_an_earlier_command_are_left_alone(store: Store) -> None:
    engine, specs = Crowded(3), make_specs(3, 1, 1)
    Coordinator(engine, "made", store, Site(), Hints(), Watcher()).detach(specs)
    coordinate(engine, store, specs[:1])
    assert not engine.withdrawn


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that does not appear counts as gone at once; what would go on for ever fails after ten seconds."""
    end = time.monotonic() + 10

    def sleep(seconds: float) -> None:
        assert time.monotonic() < end, "the coordinator never ends"

    monkeypatch.setattr("tta_bench.engines.coordinate.LATE", 0.05, raising=False)
    monkeypatch.setattr("tta_bench.engines.coordinate.time.sleep", sleep)


def vanish(times: int) -> Callable[[Ticket, Store], Record]:
    """Somebody moves the record of m1 away before the coordinator has read it."""
    gone: Counter[str] = Counter()

    def act(ticket: Ticket, store: Store) -> Record:
        record = save_made(ticket, store)
        if ticket.spec.method == "m1" and gone["m1"] < times:
            gone["m1"] += 1
            store.set_cell_aside(record.cell)
        return record

    return act


def test_a_record_that_is_gone_is_made_again(store: Store, soon: None) -> None:
    engine = Made(1, vanish(1))
    records, lost = coordinate(engine, store, make_specs(3, 1, 1))
    assert (len(records), lost) == (3, [])
    assert engine.submitted == [1, 1]


def test_a_record_that_is_always_gone_is_lost_with_the_reason(store: Store, soon: None) -> None:
    engine = Made(1, vanish(99))
    records, lost = coordinate(engine, store, make_specs(3, 1, 1), retries=1)
    assert sorted(record.cell.spec.method for record in records.values()) == ["m2", "source"]
    (one,) = lost
    assert one.spec.method == "m1"
    assert one.reason.endswith(" was written, but is not there")
    assert engine.submitted == [1, 1]
