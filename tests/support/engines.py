"""An engine and workers without processes: made cells through the real job files, claims, records and supervisor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tests.support.records import changed, make_record, predict
from tta_bench.engines.alive import FINISHED, Sign
from tta_bench.engines.base import ENDED, RUNNING, Engine, State
from tta_bench.engines.job import Entry, Job, JobFolder
from tta_bench.engines.queue import Queue
from tta_bench.engines.supervise import Lost, Supervisor
from tta_bench.records.cell import Cell
from tta_bench.records.locks import Try
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.runs.watcher import Watcher

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


def made(spec: CellSpec) -> Record:
    return make_record(spec.method, 0.5, task=spec.tasks[0], seed=spec.seed)


def make_entry(spec: CellSpec | None = None, cost: float = 1.0, before: str = "") -> Entry:
    spec = spec or make_spec()
    return entry_of(made(spec).cell, spec, cost, before)


def entry_of(cell: Cell, spec: CellSpec | None = None, cost: float = 1.0, before: str = "") -> Entry:
    return Entry(spec or cell.spec, cost, cell.identity, cell.hashes, before)


def make_job(engine: str = "local", workers: int = 1, specs: list[CellSpec] | None = None, retries: int = 2) -> Job:
    return Job(engine, workers, asdict(Site()), tuple(map(make_entry, specs or [make_spec()])), retries)


def save_made(entry: Entry, store: Store) -> Record:
    """Save the record of a cell that nothing has computed."""
    return store.save(made(entry.spec), predict(HALF))


class Seen(Watcher):
    """Keeps what a supervisor reports."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.warnings: list[str] = []
        self.queued: list[int] = []
        self.waited: list[int] = []

    def on_record(self, record: Record, is_new: bool) -> None:
        self.records.append(record)

    def on_warning(self, text: str) -> None:
        self.warnings.append(text)

    def on_queue(self, workers: int, why: str) -> None:
        self.queued.append(workers)

    def on_wait(self, cells: int) -> None:
        self.waited.append(cells)


@dataclass
class Made(Engine):
    """Workers that take one cell whenever the supervisor asks for their state."""

    workers: int = 2
    act: Callable[[Entry, Store], Record] = save_made
    steps: dict[tuple[str, int], Iterator[State]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    submitted: list[int] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        super().__init__(RunOptions(jobs=self.workers))

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
        """What `loop.work` does, step by step."""
        sign, content = Sign(job.life_file(index)), self.content
        sign.show(host="n1")
        queue, skip = Queue(job.store, content.cells, "cpu", content.retries), index
        while (entry := queue.next(skip)) is not None:
            skip = 0
            cell = made(entry.spec).cell
            with job.store.claim(cell):
                found = job.store.find(cell)
                if found and found.finished_at != entry.before:
                    queue.drop(entry)
                    continue
                job.store.note_try(entry.identity, Try(job.name, index, "n1"))
                sign.on_start(entry.spec, 100)
                yield State(RUNNING)  # a worker may be at work when the others look
                try:
                    record = self.act(entry, job.store)
                except Died as error:
                    job.log(index).write_text(f"first\n{error}\n")
                    if error.exit:
                        sign.show(exit=error.exit)
                    return
            queue.drop(entry)
            sign.on_record(record, is_new=True)
        sign.show(exit=FINISHED)


def supervisor(
    engine: Engine,
    store: Store,
    specs: list[CellSpec],
    watcher: Watcher | None = None,
    retries: int = 2,
    name: str = "",
) -> Supervisor:
    """A supervisor of made workers that does not sleep."""
    queue = Queue(store, map(make_entry, specs), "cpu", retries)
    job = Job(name or "made", 1, asdict(Site(device="cpu")), (), retries)
    return Supervisor(engine, queue, job, watcher or Watcher(), ask=0.0, poll=0.0)


def supervise(
    engine: Engine, store: Store, specs: list[CellSpec], watcher: Watcher | None = None, retries: int = 2
) -> tuple[dict[str, Record], list[Lost]]:
    """Run specs on made workers."""
    found = supervisor(engine, store, specs, watcher, retries)
    lost = found.run()
    return found.queue.ended, lost


def failed(entry: Entry, store: Store) -> Record:
    """A cell whose method raises."""
    done = save_made(entry, store)
    return store.save(changed(done, status="failed", reason="it broke", top1=0.0, task_top1={}, predictions=""), None)


def leave_try(store: Store, entry: Entry, count: int = 1) -> None:
    """Workers have started a cell, and died."""
    for _ in range(count):
        store.note_try(entry.identity, Try("before", 0, "n1"))
