"""The supervisor, and what it does when workers die; without processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import (
    Died,
    Made,
    Seen,
    failed,
    leave_try,
    made,
    make_entry,
    make_specs,
    save_made,
    supervise,
    supervisor,
)
from tta_bench.engines.alive import Sign
from tta_bench.engines.base import RUNNING, State
from tta_bench.engines.job import Entry, JobFolder
from tta_bench.engines.manual import Manual
from tta_bench.errors import Cancelled, UserError
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.runs.options import RunOptions


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "run", "s")


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_every_cell_is_done_once(store: Store, workers: int) -> None:
    done: Counter[str] = Counter()

    def count(entry: Entry, store: Store) -> Record:
        done[entry.spec.digest] += 1
        return save_made(entry, store)

    specs, seen = make_specs(3, 4, 2), Seen()
    records, lost = supervise(Made(workers, count), store, specs, seen)
    assert not lost
    assert set(records) == {spec.digest for spec in specs}
    assert set(done.values()) == {1}
    assert len(seen.records) == len(specs)
    assert not list(store.claims.iterdir()), "finished cells leave neither claims nor tries"


def test_a_worker_that_still_starts_gets_no_company(store: Store) -> None:
    class Slow(Made):
        def _live(self, job: JobFolder, index: int) -> Iterator[State]:
            yield from [State(RUNNING)] * 3  # it imports torch
            sign = Sign(job.life_file(index))
            sign.on_start(self.content.cells[0].spec, 0)
            yield from [State(RUNNING)] * 3  # it reads weights and images
            yield from super()._live(job, index)

    engine = Slow(2, save_made)
    _, lost = supervise(engine, store, make_specs(1, 1, 1))
    assert (engine.submitted, lost) == ([1], [])


def test_a_worker_that_dies_is_replaced_and_its_cell_given_out_again(store: Store) -> None:
    deaths: Counter[str] = Counter()

    def die_once(entry: Entry, store: Store) -> Record:
        if entry.spec.method == "m1" and not deaths:
            deaths[entry.spec.digest] += 1
            raise Died("out of memory")
        return save_made(entry, store)

    engine, seen = Made(2, die_once), Seen()
    records, lost = supervise(engine, store, make_specs(3, 4, 1), seen)
    assert not lost
    assert len(records) == 12
    assert engine.submitted == [2, 1], "the replacement does not wait for the others to end"
    assert len(seen.warnings) == 1
    assert "died: first / out of memory" in seen.warnings[0]


@pytest.mark.parametrize("workers", [2, 8])
def test_a_cell_that_kills_every_worker_is_lost_with_the_logs_last_lines(store: Store, workers: int) -> None:
    tries: Counter[str] = Counter()

    def die(entry: Entry, store: Store) -> Record:
        tries[entry.spec.method] += 1
        if entry.spec.method == "m1":
            raise Died("Killed")
        return save_made(entry, store)

    records, lost = supervise(Made(workers, die), store, make_specs(3, 1, 1), retries=2)
    assert sorted(record.cell.spec.method for record in records.values()) == ["m2", "source"]
    assert tries == {"source": 1, "m2": 1, "m1": 3}
    (one,) = lost
    assert str(one).startswith("m1 on t0, seed 0: lost: worker ")
    assert str(one).endswith(" on n1 died: first / Killed (tried 3 times)")
    assert not list(store.claims.glob("*.tries")), "the next command tries it again"


def test_a_cell_that_ends_workers_before_it_starts_is_given_up(store: Store) -> None:
    """Reading its images takes all the memory, for example: then the worker has noted no try."""
    specs = make_specs(3, 2, 1)
    tried: list[int] = []

    class Bound(Made):
        def _live(self, job: JobFolder, index: int) -> Any:
            if specs[0].digest in {entry.spec.digest for entry in self.content.cells}:
                tried.append(index)
                Sign(job.life_file(index)).on_start(specs[0], 0)
                job.log(index).write_text("Killed")
                yield State("running")
                return
            yield from super()._live(job, index)

    records, lost = supervise(Bound(1), store, specs)
    assert len(records) == 5
    assert tried == [0, 0, 0]
    assert [str(one).rpartition("died: ")[2] for one in lost] == ["Killed (tried 3 times)"]


def test_tries_survive_the_supervisor(store: Store) -> None:
    """The one before has seen the cell end two workers, and was killed."""
    tries: Counter[str] = Counter()

    def die(entry: Entry, store: Store) -> Record:
        tries[entry.spec.method] += 1
        raise Died("Killed")

    (spec,) = make_specs(1, 1, 1)
    leave_try(store, make_entry(spec), 2)
    _, lost = supervise(Made(1, die), store, [spec])
    assert tries == {"source": 1}
    assert lost[0].reason.endswith("died: first / Killed (tried 3 times)")


def test_a_cell_without_tries_left_is_lost_with_what_the_files_say(store: Store) -> None:
    (spec,) = make_specs(1, 1, 1)
    leave_try(store, make_entry(spec), 3)
    engine = Made(1)
    _, lost = supervise(engine, store, [spec])
    assert [one.reason for one in lost] == ["worker 0 on n1 died (tried 3 times)"]
    assert not engine.submitted
    records, lost = supervise(engine, store, [spec])
    assert (len(records), lost) == (1, []), "the next command tries it again"


def test_workers_that_never_start_are_not_replaced_for_ever(store: Store) -> None:
    class Broken(Made):
        def _live(self, job: JobFolder, index: int) -> Any:
            job.log(index).write_text("No module named tta_bench\n")
            return iter(())

    engine = Broken(2)
    records, lost = supervise(engine, store, make_specs(2, 2, 1), retries=1)
    assert not records
    assert len(lost) == 4
    assert sum(engine.submitted) <= 6
    assert "No module named tta_bench" in str(lost[0])


def test_a_method_that_raises_fails_its_cell_once(store: Store) -> None:
    done: Counter[str] = Counter()

    def fail(entry: Entry, store: Store) -> Record:
        done[entry.spec.digest] += 1
        return failed(entry, store) if entry.spec.method == "m1" else save_made(entry, store)

    records, lost = supervise(Made(2, fail), store, make_specs(2, 2, 1))
    assert not lost
    assert Counter(record.status for record in records.values()) == {"done": 2, "failed": 2}
    assert set(done.values()) == {1}


def test_the_next_supervisor_finds_the_workers_of_one_that_died(store: Store) -> None:
    engine, specs = Made(2), make_specs(3, 2, 1)
    supervisor(engine, store, specs).submit(2)
    records, lost = supervise(engine, store, specs)
    assert not lost
    assert len(records) == 6
    assert engine.submitted == [2], "the running job is followed, nothing is submitted again"


def test_an_interrupt_cancels_running_jobs(store: Store) -> None:
    def interrupt(entry: Entry, store: Store) -> Record:
        raise KeyboardInterrupt

    engine = Made(1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        supervise(engine, store, make_specs(2, 1, 1))
    assert len(engine.cancelled) == 1
    assert engine.closed
    assert not list(store.claims.glob("*.tries")), "an interrupt is no try"


def test_machines_that_refuse_are_not_asked_again(store: Store) -> None:
    class Refusing(Made):
        def _live(self, job: JobFolder, index: int) -> Any:
            yield State("running")
            Sign(job.life_file(index)).show(host="n2", exit="refused: n2 has other weights")

    engine, seen = Refusing(2), Seen()
    records, lost = supervise(engine, store, make_specs(2, 1, 1), seen)
    assert not records
    assert {one.reason for one in lost} == {"n2 has other weights"}
    assert engine.submitted == [2]
    assert seen.warnings == [f"worker {index} on n2 stopped: n2 has other weights" for index in range(2)]


def test_a_machine_that_refuses_leaves_the_cells_to_the_others(store: Store) -> None:
    class Mixed(Made):
        def _live(self, job: JobFolder, index: int) -> Any:
            if index:
                yield from super()._live(job, index)
                return
            Sign(job.life_file(index)).show(exit="refused: n2 has other weights")

    engine = Mixed(2)
    records, lost = supervise(engine, store, make_specs(3, 2, 1))
    assert (len(records), lost) == (6, [])
    assert engine.submitted == [2]


def test_workers_of_a_manual_job_are_started_by_hand(store: Store) -> None:
    specs, engine = make_specs(2, 1, 1), Manual(RunOptions(jobs=1))
    with pytest.raises(UserError, match="--on manual starts no workers: add --detach"):
        supervisor(engine, store, specs, name="manual").run()
    job = supervisor(engine, store, specs, name="manual").submit(1)
    assert engine.state(job) == [State("waiting")]
    by_hand = Made()
    by_hand.content = job.read()
    for _ in by_hand._live(job, 0):
        assert engine.state(job) == [State("unknown")], "only its file is known"
    assert engine.state(job) == [State("ended")]


def test_a_cell_that_a_time_limit_drops_is_reported_at_once(store: Store) -> None:
    deaths: Counter[str] = Counter()

    def stop_once(entry: Entry, store: Store) -> Record:
        if entry.spec.method == "m1" and not deaths:
            deaths[entry.spec.digest] += 1
            raise Died("DUE TO TIME LIMIT", exit="was stopped by SIGTERM")
        return save_made(entry, store)

    engine, seen = Made(1, stop_once), Seen()
    _, lost = supervise(engine, store, make_specs(2, 2, 1), seen)
    assert not lost
    assert engine.submitted == [1, 1]
    assert seen.warnings == ["worker 0 on n1 was stopped by SIGTERM: first / DUE TO TIME LIMIT"]


def test_a_cancelled_run_ends_and_its_workers_are_not_replaced(store: Store) -> None:
    def cancel(entry: Entry, store: Store) -> Record:
        if entry.spec.method != "source":
            (job,) = JobFolder.all(store)
            job.cancelled_file.touch()
            raise Died("", exit="was stopped by SIGTERM")
        return save_made(entry, store)

    engine = Made(2, cancel)
    found = supervisor(engine, store, make_specs(3, 1, 1))
    with pytest.raises(Cancelled):
        found.run()
    assert [record.cell.spec.method for record in found.queue.ended.values()] == ["source"]
    assert engine.submitted == [2]
    assert not list(store.claims.glob("*.tries")), "a cancelled cell was not tried in vain"


def test_a_cell_that_a_plain_run_has_claimed_is_waited_for(store: Store) -> None:
    specs = make_specs(2, 1, 1)
    held = made(specs[1])

    class Elsewhere(Seen):
        def on_wait(self, cells: int) -> None:
            super().on_wait(cells)
            if len(self.waited) == 3:
                save_made(make_entry(specs[1]), store)

    engine, seen = Made(1), Elsewhere()
    with store.claim(held.cell) as is_ours:
        assert is_ours
        records, lost = supervise(engine, store, specs, seen)
    assert (len(records), lost) == (2, [])
    assert engine.submitted == [1]
    assert set(seen.waited) == {1}
