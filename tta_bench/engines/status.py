"""The state of a run folder's jobs, read from its files; needs no torch."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from tta_bench.engines import engine_class
from tta_bench.engines.alive import Life
from tta_bench.engines.base import ENDED, UNKNOWN, WAITING, State
from tta_bench.engines.costs import seconds
from tta_bench.engines.job import Entry, Job, JobFolder
from tta_bench.engines.queue import Queue
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.runs.options import RunOptions


@dataclass(frozen=True)
class WorkerStatus:
    """What one worker does."""

    name: str
    state: str
    life: Life
    spec: CellSpec | None  # of the cell that it runs
    reason: str  # why it waits or has ended


@dataclass(frozen=True)
class JobStatus:
    """How far a job is."""

    job: JobFolder
    engine: str
    cells: int
    done: int
    failed: int
    running: int
    workers: list[WorkerStatus]
    seconds_left: float | None  # None while nothing is known about the pace

    @property
    def waiting(self) -> int:
        return self.cells - self.done - self.failed - self.running

    @property
    def is_active(self) -> bool:
        return any(worker.state != ENDED for worker in self.workers)


def status(folder: JobFolder) -> JobStatus:
    job, engine = folder.read(), str(folder.handle["engine"])
    states = _states(folder, engine, job.workers)
    if len(states) != job.workers:
        raise UserError(f"{folder.path}: damaged, its files disagree on the number of workers: delete it")
    queue = Queue(folder.store, job.cells, job.at.device)
    queue.look()
    specs = {digest: entry.spec for digest, entry in queue.left.items()}
    workers = []
    for index, state in enumerate(states):
        life = Life.read(folder.life_file(index))
        word = ENDED if life.exit else state.word
        workers.append(
            WorkerStatus(str(index), word, life, specs.get(life.spec) if word != ENDED else None, _reason(life, state))
        )
    failed = sum(record.status != "done" for record in queue.ended.values())
    running = {worker.spec.digest for worker in workers if worker.spec}
    left = _seconds_left(job, queue.left, queue.ended, workers)
    return JobStatus(
        folder, engine, len(job.cells), len(queue.ended) - failed, failed, len(running), workers, left
    )  # fmt: skip


def _reason(life: Life, state: State) -> str:
    """Why a worker waits or has ended."""
    ended = state.death if life.at else ", ".join(filter(None, ["never started", state.why]))
    return life.exit or (ended if state.word == ENDED else state.why)


def cancel(folder: JobFolder) -> None:
    """End a job's workers; a supervisor that follows them does not replace them."""
    with suppress(OSError):  # a folder of somebody else
        folder.cancelled_file.touch()
    engine_class(str(folder.handle["engine"]))(RunOptions()).cancel(folder)
    Queue(folder.store, folder.read().cells, "auto").forget_tries()


def _states(folder: JobFolder, engine: str, workers: int) -> list[State]:
    try:
        return engine_class(engine)(RunOptions()).state(folder)
    except UserError:  # its scheduler cannot be reached from here
        return [State(UNKNOWN)] * workers


def _seconds_left(
    job: Job, left: dict[str, Entry], ended: dict[str, Record], workers: list[WorkerStatus]
) -> float | None:
    """The cost of what is left at the pace so far, divided among the workers that are at work."""
    costs = {entry.spec.digest: entry.cost for entry in job.cells}
    active = sum(worker.state not in (ENDED, WAITING) for worker in workers)
    took = {digest: seconds(record) for digest, record in ended.items() if record.status == "done"}
    known = sum(costs[digest] for digest in took)
    if not active or not (known or job.in_seconds):
        return None
    pace = sum(took.values()) / known if known else 1.0
    spent = [
        min(time.time() - worker.life.since, pace * costs[worker.spec.digest]) for worker in workers if worker.spec
    ]
    return max(pace * sum(costs[digest] for digest in left) - sum(spent), 0.0) / active
