"""An engine and workers without processes: made cells through the real job files, journals and coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.records import changed, make_record, predict
from tta_bench.engines.base import ENDED, RUNNING, Engine, Options, State
from tta_bench.engines.coordinate import Coordinator
from tta_bench.engines.job import JobFolder, Ticket
from tta_bench.engines.journal import FINISHED, Journal
from tta_bench.engines.tickets import Hints
from tta_bench.engines.watched import Lost
from tta_bench.engines.work import Queue
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.listing import Watcher
from tta_bench.runs.site import Site

HALF = np.arange(100) % 2 == 0


class Died(Exception):
    """A made worker is killed, or ended by its scheduler: then it says why."""

    def __init__(self, last_line: str, exit: str = "") -> None:
        super().__init__(last_line)
        self.exit = exit


def make_spec(method: str = "source", task: str = "fog", seed: int = 0) -> CellSpec:
    return CellSpec("s", 1, {"kind": "digits-c"}, (task,), "normal", seed, method, method, {}, "m", 10)


def make_specs(methods: int, tasks: int, seeds: int) -> list[CellSpec]:
    names = ["source", *(f"m{number}" for number in range(1, methods))]
    return [make_spec(n, f"t{task}", seed) for task in range(tasks) for seed in range(seeds) for n in names]


def save_made(ticket: Ticket, store: Store) -> Record:
    """Save the record of a cell that nothing has computed."""
    spec = ticket.spec
    return store.save(make_record(spec.method, 0.5, task=spec.tasks[0], seed=spec.seed), predict(HALF))


class Seen(Watcher):
    """Keeps what a coordinator reports."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.warnings: list[str] = []
        self.queued: list[int] = []

    def on_record(self, record: Record, is_new: bool) -> None:
        self.records.append(record)

    def on_warning(self, text: str) -> None:
        self.warnings.append(text)

    def on_queue(self, workers: int, why: str) -> None:
        self.queued.append(workers)


@dataclass
class Made(Engine):
    """Workers that take one cell whenever the coordinator asks for their state."""

    workers: int = 2
    act: Callable[[Ticket, Store], Record] = save_made
    steps: dict[tuple[str, int], Iterator[State]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    submitted: list[int] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        super().__init__(Options(jobs=self.workers))

    @property
    def jobs(self) -> int:
        return self.workers

    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        self.submitted.append(workers)
        self.content = job.read()  # once for all workers, which share this process
        for index in range(workers):
            self.steps[job.name, index] = self._live(job, index)
        return {}

    def state(self, job: JobFolder) -> list[State]:
        return [next(self.steps[job.name, index], State(ENDED)) for index in range(job.handle["workers"])]

    def cancel(self, job: JobFolder) -> None:
        self.cancelled.append(job.name)

    def withdraw(self, job: JobFolder) -> None:
        self.withdrawn.append(job.name)

    def close(self) -> None:
        self.closed = True

    def _live(self, job: JobFolder, index: int) -> Iterator[State]:
        journal = Journal(job.journal(index))
        journal.write("worker", host="n1", pid=1)
        queue = Queue(job, self.content, index)
        while (ticket := queue.take()) is not None:
            journal.write("take", spec=ticket.spec.digest)
            yield State(RUNNING)  # a worker may be at work when the others look
            try:
                record = self.act(ticket, job.store)
            except Died as error:
                job.log(index).write_text(f"first\n{error}\n")
                if error.exit:
                    journal.write("exit", why=error.exit)
                return
            journal.write("end", spec=ticket.spec.digest, slug=record.cell.slug, status=record.status, new=True)
        journal.write("exit", why=FINISHED)


def coordinate(
    engine: Made, store: Store, specs: list[CellSpec], watcher: Watcher | None = None, retries: int = 2
) -> tuple[dict[str, Record], list[Lost]]:
    """Run specs on made workers."""
    made = Coordinator(engine, "made", store, Site(), Hints(), watcher or Watcher(), retries, ask=0.0, poll=0.0)
    return made.run(specs)


def failed(ticket: Ticket, store: Store) -> Record:
    """A cell whose method raises."""
    done = save_made(ticket, store)
    return store.save(changed(done, status="failed", reason="it broke", top1=0.0, task_top1={}, predictions=""), None)
