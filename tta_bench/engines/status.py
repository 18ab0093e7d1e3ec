"""The state of a run folder's jobs, read from their files; needs no torch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tta_bench.engines import Options, engine_class
from tta_bench.engines.base import ENDED, UNKNOWN, WAITING, State
from tta_bench.engines.job import Job, JobFolder
from tta_bench.engines.journal import Life
from tta_bench.errors import UserError
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store


@dataclass(frozen=True)
class WorkerStatus:
    """What one worker does."""

    name: str
    state: str
    host: str
    spec: CellSpec | None  # of the cell that it runs
    images: int
    of: int
    accuracy: float
    done: int
    reason: str  # why it waits or has ended, and what it refused


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


def statuses(store: Store) -> list[JobStatus]:
    """The jobs of a folder, oldest first."""
    return [status(job) for job in JobFolder.all(store)]


def status(folder: JobFolder) -> JobStatus:
    job, handle = folder.read(), folder.handle
    lives = folder.lives()
    states = _states(folder, str(handle["engine"]), job.workers)
    if not len(lives) == len(states) == job.workers:
        raise UserError(f"{folder.path}: damaged, its files disagree on the number of workers: delete it")
    specs = {ticket.spec.digest: ticket.spec for ticket in job.tickets}
    workers = [
        WorkerStatus(
            name=str(index),
            state=ENDED if life.exit else state.word,
            host=life.host,
            spec=specs.get(life.spec) if not life.exit and state.word != ENDED else None,
            images=life.images,
            of=life.of,
            accuracy=life.accuracy,
            done=len(life.ended),
            reason=_reason(life, state),
        )
        for index, (life, state) in enumerate(zip(lives, states, strict=True))
    ]
    ended = {digest: word for life in lives for digest, word in life.ended.items()}
    failed = sum(word != "done" for word in ended.values())
    running = len({worker.spec.digest for worker in workers if worker.spec} - set(ended))
    left = _seconds_left(job, lives, workers)
    return JobStatus(folder, str(handle["engine"]), len(specs), len(ended) - failed, failed, running, workers, left)


def _reason(life: Life, state: State) -> str:
    """Why a worker waits or has ended, and what it refused to run."""
    lines = list(dict.fromkeys(life.refused.values()))
    refused = [f"refused {len(life.refused)} cell{'s'[: len(life.refused) != 1]}: {'; '.join(lines)}"] if lines else []
    ended = state.death if life.at else ", ".join(filter(None, ["never started", state.why]))
    why = life.exit or (ended if state.word == ENDED else state.why)
    return ", ".join([*filter(None, [why]), *refused])


def cancel(folder: JobFolder) -> None:
    """End a job's workers; a coordinator that follows them does not replace them."""
    with suppress(OSError):  # a folder of somebody else
        folder.note_cancelled()
    engine_class(str(folder.handle["engine"]))(Options()).cancel(folder)


def _states(folder: JobFolder, engine: str, workers: int) -> list[State]:
    try:
        return engine_class(engine)(Options()).state(folder)
    except UserError:  # its scheduler cannot be reached from here
        return [State(UNKNOWN)] * workers


def _seconds_left(job: Job, lives: Sequence[Life], workers: Sequence[WorkerStatus]) -> float | None:
    """The cost of what is left at the pace so far, divided among the workers that are at work."""
    costs = {ticket.spec.digest: ticket.cost for ticket in job.tickets}
    ended = {digest for life in lives for digest in life.ended}
    active = sum(worker.state not in (ENDED, WAITING) for worker in workers)
    took = {digest: seconds for life in lives for digest, seconds in life.seconds.items() if digest in costs}
    known = sum(costs[digest] for digest in took)
    if not active or not (known or job.in_seconds):
        return None
    pace = sum(took.values()) / known if known else 1.0
    left = pace * sum(cost for digest, cost in costs.items() if digest not in ended)
    spent = sum(min(time.time() - life.since, pace * costs.get(life.spec, 0.0)) for life in lives if life.spec)
    return max(left - spent, 0.0) / active
