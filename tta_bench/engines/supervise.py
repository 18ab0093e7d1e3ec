"""The supervisor: starts workers for what is left, replaces those that die, and shows what the folder says.

It writes job files only; workers write the records. It may die: the next one finds the workers that still run, and how
often each cell was tried.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tta_bench.engines.alive import FINISHED, REFUSED, Life
from tta_bench.engines.base import ENDED, WAITING, Engine, State
from tta_bench.engines.job import Entry, Job, JobFolder
from tta_bench.engines.queue import Queue
from tta_bench.errors import Cancelled, UserError
from tta_bench.records.locks import Try
from tta_bench.records.spec import CellSpec
from tta_bench.runs.watcher import Watcher

AGAIN = 10.0  # seconds until a scheduler that has refused replacements is asked again
PATIENCE = 600.0  # seconds to go on asking it when no worker is left
GONE = "workers ended without leaving its record"


@dataclass(frozen=True)
class Lost:
    """A cell that no worker could finish."""

    spec: CellSpec
    reason: str

    def __str__(self) -> str:
        return f"{self.spec.label} on {self.spec.name}, seed {self.spec.seed}: lost: {self.reason}"


@dataclass
class Worker:
    """One worker of a job."""

    job: JobFolder
    index: int
    watcher: Watcher
    life: Life = field(default_factory=Life)
    is_over: bool = False


@dataclass
class Supervisor:
    """Runs what is left of a queue on an engine."""

    engine: Engine
    queue: Queue
    job: Job  # without its cells and its number of workers
    watcher: Watcher
    name: str = ""  # of the first job, if its workers have been started already
    poll: float = 0.2  # seconds between looks at the folder
    ask: float = 2.0  # seconds between questions to the engine, which may be slow to answer
    workers: list[Worker] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    _reasons: dict[str, str] = field(default_factory=dict)  # why a cell was not finished, by spec
    _reason: str = GONE  # why all of them were not
    _refusals: int = 0  # workers on machines with other code, weights or images
    _started: int = 0  # workers since the last record
    _submitted: list[JobFolder] = field(default_factory=list)
    _asked: float = 0.0
    _queued: int = 0  # workers that waited when the engine was last asked
    _refused_since: float | None = None  # when the scheduler first refused replacements
    _next_try: float = 0.0

    def run(self) -> list[Lost]:
        """Run the queue to its end; returns the cells that no worker could finish."""
        try:
            self._attach()
            while self.queue.left and self._staff():
                time.sleep(self.poll)
                self._look()
            self._read_records(now=True)
            for job in self._submitted:  # not those of an earlier command, which may need them
                with suppress(UserError):  # then they start later, and end at once
                    self.engine.withdraw(job)
            self.lost += [Lost(entry.spec, self._why(entry)) for entry in self.queue.left.values()]
        except BaseException:
            self._cancel()
            with suppress(UserError):
                self._read_records(now=True)  # to say how many are saved
            raise
        finally:
            self.queue.forget_tries()  # the next command tries everything again; one after our death does not
            self.engine.close()
        self.engine.finish()
        return self.lost

    def submit(self, workers: int) -> JobFolder:
        """Start workers for everything that is left."""
        cells = tuple(self.queue.left.values())
        workers = min(workers, len(cells))
        content = replace(self.job, workers=workers, cells=cells, warns=not self.workers)
        job = JobFolder.create(self.queue.store, content, self.name)
        self.name = ""
        try:
            job.keep_handle(content, self.engine.submit(job, workers))
        except BaseException:  # a worker that has started in spite of it finds no job, and ends
            shutil.rmtree(job.path, ignore_errors=True)
            raise
        self._submitted.append(job)
        self._watch(job, workers)
        self._started += workers
        return job

    def _attach(self) -> None:
        """Follow the workers of an earlier supervisor that still run."""
        for job in JobFolder.all(self.queue.store):
            is_ours = job.handle["engine"] == self.job.engine and not job.cancelled_file.exists()
            if is_ours and any(state.word != ENDED for state in self.engine.state(job)):
                self._watch(job, job.handle["workers"])
        if self.workers:
            self.engine.close()  # what was warmed up is not needed yet
        elif not self.engine.starts_workers:
            raise UserError(f"--on {self.job.engine} starts no workers: add --detach, and start them yourself")

    def _watch(self, job: JobFolder, workers: int) -> None:
        first = len(self.workers)
        self.workers += [Worker(job, index, self.watcher.of_worker(first + index)) for index in range(workers)]

    def _look(self) -> None:
        """Notice what workers do, which ones have ended, and which records are new."""
        is_time = time.monotonic() - self._asked >= self.ask
        states: dict[str, list[State]] = {}
        queued: list[str] = []  # why workers wait
        for worker in self.workers:
            if worker.is_over:
                continue
            if is_time and worker.job.name not in states:
                states[worker.job.name] = self.engine.state(worker.job)
            found = states.get(worker.job.name)
            state = found[worker.index] if found else None
            # Asked before the file is read: what a worker that has ended wrote last is then in it.
            self._show(worker, Life.read(worker.job.life_file(worker.index), worker.life))
            if worker.life.is_over(state or State("")):
                self._end(worker, state or State(ENDED))
            elif state and state.word == WAITING:
                queued.append(state.why)
        if is_time:
            self._asked = time.monotonic()
            if queued or self._queued:
                self.watcher.on_queue(len(queued), "; ".join(dict.fromkeys(filter(None, queued))))
            self._queued = len(queued)
        self._read_records(now=False)

    def _show(self, worker: Worker, life: Life) -> None:
        """Report what a worker has done since the last look."""
        before, worker.life = worker.life, life
        entry = self.queue.left.get(life.spec)
        if entry and life.of and (life.spec, life.of) != (before.spec, before.of):
            worker.watcher.on_start(entry.spec, life.of)
        if life.spec and life.images != before.images:
            worker.watcher.on_batch(life.images, life.accuracy)
        for text in life.warnings if life.pid != before.pid else life.warnings[len(before.warnings) :]:
            self.watcher.on_warning(text)

    def _read_records(self, *, now: bool) -> None:
        for entry, record in self.queue.look(now=now):
            self._started = 0
            self.watcher.on_record(record.labelled(entry.spec.label), True)

    def _end(self, worker: Worker, state: State) -> None:
        """Take note of a worker that has ended, and why."""
        worker.is_over = True
        worker.watcher.on_worker_end()
        life = worker.life
        if life.exit == FINISHED:
            return
        if worker.job.cancelled_file.exists():  # ended on purpose: not replaced
            raise Cancelled("cancelled with `tta-bench status --cancel`")
        if life.exit.startswith(REFUSED):
            self._refusals += 1
            self._reason = life.exit.removeprefix(REFUSED)
            self.watcher.on_warning(f"{_name(worker.index, life)} stopped: {self._reason}")
            return
        what = _ending(worker.job, worker.index, life, state)
        if not life.exit or life.spec:
            self.watcher.on_warning(what)
        if life.spec:
            self._reasons[life.spec] = what
            self._count_try(worker)
        elif not life.done:
            self._reason = what

    def _count_try(self, worker: Worker) -> None:
        """Note that a worker has died in a cell, if it did not come to note that itself."""
        entry, life, job = self.queue.left.get(worker.life.spec), worker.life, worker.job.name
        store = self.queue.store
        if entry and (job, worker.index) not in {(found.job, found.worker) for found in store.tries(entry.identity)}:
            store.note_try(entry.identity, Try(job, worker.index, life.host))

    def _staff(self) -> bool:
        """Start workers for cells that nobody runs; False if that is hopeless."""
        cells = [worker.life.spec for worker in self.workers if not worker.is_over]
        alive, idle = len(cells), cells.count("")  # the idle start, or have just ended a cell: each will take one
        missing = self.engine.jobs - alive - self._refusals
        free = max(self._free(missing + idle, cells) - idle, 0) if missing > 0 else 0
        most = (self.queue.retries + 1) * self.engine.jobs  # so many have started since a cell was finished: no use
        if free and self.engine.starts_workers and self._started < most:
            self._start(free)
        elif not alive and (free or missing <= 0):
            return False
        elif not alive:
            self.watcher.on_wait(len(self.queue.left))  # processes that belong to no job run them
        return True

    def _free(self, most: int, taken: Sequence[str]) -> int:
        """How many cells nobody runs or has `taken`, at most so many; what has ended too many workers is given up."""
        found: list[str] = []
        hopeless: list[Entry] = []
        for entry, may_try in self.queue.idle():
            if entry.spec.digest in taken:  # its worker still reads images and weights
                continue
            if may_try:
                found.append(entry.spec.digest)
            else:
                hopeless.append(entry)
            if len(found) == most:
                break
        self._read_records(now=True)  # a cell that has finished meanwhile had its record before its claim ended
        for entry in hopeless:
            if entry.spec.digest in self.queue.left:
                self.lost.append(Lost(entry.spec, self._why(entry)))
                self.queue.drop(entry)
                self._started = 0
        return sum(digest in self.queue.left for digest in found)

    def _start(self, workers: int) -> None:
        """Submit a job. A scheduler that refuses replacements may be down or full: it is asked again for a while."""
        if not self.workers:
            self.submit(workers)
            return
        now = time.monotonic()
        if self._refused_since is not None and now < self._next_try:
            return
        try:
            self.submit(workers)
        except UserError as error:
            if self._refused_since is None:
                self._refused_since = now
                self.watcher.on_warning(f"a worker cannot be replaced yet: {error}")
            elif now - self._refused_since > PATIENCE and all(worker.is_over for worker in self.workers):
                raise
            self._next_try = time.monotonic() + AGAIN
        else:
            self._refused_since = None

    def _cancel(self) -> None:
        """End the workers that still run."""
        for job in {worker.job.name: worker.job for worker in self.workers if not worker.is_over}.values():
            try:
                self.engine.cancel(job)
            except UserError as error:  # why we cancel matters more
                self.watcher.on_warning(f"job {job.name} may still run: {error}")

    def _why(self, entry: Entry) -> str:
        """Why a cell was not finished; what an earlier supervisor saw is in the files of the last worker."""
        tries = self.queue.store.tries(entry.identity)
        known = self._reasons.get(entry.spec.digest)
        if not tries:
            return known or self._reason
        often = "once" if len(tries) == 1 else f"{len(tries)} times"
        return f"{known or _last_ending(self.queue, tries[-1])} (tried {often})"


def _last_ending(queue: Queue, last: Try) -> str:
    jobs = {job.name: job for job in JobFolder.all(queue.store)}
    if last.job not in jobs:
        return f"worker {last.worker} on {last.host} died"
    job, life = jobs[last.job], Life.read(jobs[last.job].life_file(last.worker))
    return GONE if life.exit == FINISHED else _ending(job, last.worker, life, State(ENDED))


def _ending(job: JobFolder, index: int, life: Life, state: State) -> str:
    last = job.last_lines(index)
    return f"{_name(index, life)} {life.exit or state.death}{f': {last}' if last else ''}"


def _name(index: int, life: Life) -> str:
    return f"worker {index}{f' on {life.host}' if life.host else ''}"
