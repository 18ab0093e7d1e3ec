"""The coordinator: submits jobs, follows their workers, and gives the cells of dead workers out again.

It writes job files only; workers write the records. It may die: the next one finds the jobs that still run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tta_bench.engines.base import ENDED, WAITING, Engine, State
from tta_bench.engines.job import Job, JobFolder
from tta_bench.engines.journal import FINISHED, REFUSED, Life
from tta_bench.engines.tickets import Hints, tickets
from tta_bench.engines.watched import CANCELLED, Announced, Lost, Worker, is_dead, running
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.listing import Watcher
from tta_bench.runs.site import Site

AGAIN = 10.0  # seconds until a scheduler that has refused replacements is asked again
PATIENCE = 600.0  # seconds to go on asking it when no worker is left
LATE = 60.0  # seconds after which a record that was announced counts as gone


@dataclass
class Coordinator:
    """Runs requests on an engine."""

    engine: Engine
    name: str  # of the engine
    store: Store
    site: Site
    hints: Hints
    watcher: Watcher
    retries: int = 2
    poll: float = 0.2  # seconds between looks at the journals
    ask: float = 2.0  # seconds between questions to the engine, which may be slow to answer
    workers: list[Worker] = field(default_factory=list)
    ended: dict[str, Record] = field(default_factory=dict)  # records of finished and failed cells, by spec
    tries: Counter[str] = field(default_factory=Counter)  # how often a cell was given out in vain, by spec
    reasons: dict[str, str] = field(default_factory=dict)  # why a cell was not finished, by spec
    refused: set[str] = field(default_factory=set)  # specs that no worker may run
    due: int = 0  # workers to replace
    barren: int = 0  # workers that died one after the other without finishing a cell
    is_cancelled: bool = False  # by `tta-bench status --cancel`
    _requests: dict[str, CellSpec] = field(default_factory=dict)
    _written: dict[str, Announced] = field(default_factory=dict)  # records that are not read yet, by spec
    _mistaken: set[str] = field(default_factory=set)  # names of jobs that have announced a record which is gone
    _submitted: set[str] = field(default_factory=set)  # names of our own jobs
    _asked: float = 0.0
    _refused_since: float | None = None  # when the scheduler first refused replacements
    _next_try: float = 0.0

    def run(self, requests: Sequence[CellSpec]) -> tuple[dict[str, Record], list[Lost]]:
        """Run requests to the end; returns records by the digest of their spec, and what was lost."""
        self._requests = {spec.digest: spec for spec in requests}
        try:
            self.attach()
            if self.workers:
                self.engine.close()  # what the checks started is not needed yet
            elif not self.engine.starts_workers:
                raise UserError(f"--on {self.name} starts no workers: add --detach, and start them yourself")
            while self.left():
                if not self._give_out():
                    break
                time.sleep(self.poll)
                self.follow()
            self._withdraw()
        except BaseException:
            self.cancel()
            raise
        finally:
            self.engine.close()
        self.engine.finish()
        lost = [spec for digest, spec in self._requests.items() if digest not in self.ended]
        return self.ended, [Lost(spec, self.reasons.get(spec.digest, "no worker is left")) for spec in lost]

    def detach(self, requests: Sequence[CellSpec]) -> JobFolder:
        """Submit one job for all requests and leave it alone."""
        self._requests = {spec.digest: spec for spec in requests}
        return self._submit(requests, self.engine.jobs)

    def attach(self) -> None:
        """Follow the jobs of an earlier coordinator that still run."""
        for job in running(self.store, self.name, self.engine):
            self._watch(job, job.handle["workers"])

    def left(self) -> list[CellSpec]:
        """Requests without a record, apart from those that cannot be given out again."""
        given_up = {digest for digest, tries in self.tries.items() if tries > self.retries} | self.refused
        return [s for digest, s in self._requests.items() if digest not in self.ended and digest not in given_up]

    def follow(self) -> None:
        """Read what workers have written since the last time, and notice those that have ended."""
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
            # Asked before the journal is read: what a worker that has ended wrote last is then in it.
            for line in worker.life.follow():
                self._take(worker, line)
            if worker.life.exit or (state and is_dead(state, worker.life)):
                self._end(worker, state or State(ENDED))
            elif state and state.word == WAITING:
                queued.append(state.why)
        if is_time:
            self._asked = time.monotonic()
            self.watcher.on_queue(len(queued), "; ".join(dict.fromkeys(filter(None, queued))))
        self._read_records()

    def cancel(self) -> None:
        """End the jobs that still run."""
        for name in {worker.job.name for worker in self.workers if not worker.is_over}:
            try:
                self.engine.cancel(JobFolder(self.store, name))
            except UserError as error:  # why we cancel matters more
                self.watcher.on_warning(f"job {name} may still run: {error}")

    def _withdraw(self) -> None:
        """Take back our own workers that wait, or are held. Another command may need those of an earlier job."""
        for name in self._submitted:
            with suppress(UserError):  # then they start later, and end at once
                self.engine.withdraw(JobFolder(self.store, name))

    def _give_out(self) -> bool:
        """Submit what is left, if workers have died or there are none; False if that is hopeless."""
        alive = sum(not worker.is_over for worker in self.workers)
        if self._written:
            return True
        if self._is_hopeless():
            return alive > 0
        left = self.left()
        if not alive:
            if not self._run_elsewhere(left):
                self._start(left, self.engine.jobs)
        elif self.due:
            self._start(left, self.due)
        return True

    def _is_hopeless(self) -> bool:
        """Whether new workers would be no use: the last ones all died at once, or somebody has cancelled them."""
        return self.is_cancelled or not self.engine.starts_workers or self.barren > self.retries * self.engine.jobs

    def _start(self, requests: Sequence[CellSpec], workers: int) -> None:
        """Submit a job. A scheduler that refuses replacements may be down or full: it is asked again for a while."""
        if not self.workers:
            self._submit(requests, workers)
            return
        now = time.monotonic()
        if self._refused_since is not None and now < self._next_try:
            return
        try:
            self._submit(requests, workers)
        except UserError as error:
            if self._refused_since is None:
                self._refused_since = now
                self.watcher.on_warning(f"a worker cannot be replaced yet: {error}")
            elif now - self._refused_since > PATIENCE and all(worker.is_over for worker in self.workers):
                raise
            self._next_try = time.monotonic() + AGAIN
        else:
            self._refused_since, self.due = None, 0

    def _submit(self, requests: Sequence[CellSpec], workers: int) -> JobFolder:
        workers = min(workers, len(requests))
        made, in_seconds = tickets(requests, self.hints, self.store.records())
        content = Job(
            engine=self.name,
            workers=workers,
            site=self.site.to_json(),
            tickets=tuple(made),
            beside=tuple(dict.fromkeys(w.job.name for w in self.workers if w.job.name not in self._mistaken)),
            in_seconds=in_seconds,
            warns=not self.workers,
        )
        job = JobFolder.create(self.store, content)
        try:
            job.keep_handle(content, self.engine.submit(job, workers))
        except BaseException:  # a worker that has started in spite of it finds no job, and ends
            job.remove()
            raise
        self._submitted.add(job.name)
        self._watch(job, workers)
        return job

    def _watch(self, job: JobFolder, workers: int) -> None:
        first = len(self.workers)
        self.workers += [
            Worker(job, index, Life(job.journal(index)), self.watcher.of_worker(first + index))
            for index in range(workers)
        ]

    def _take(self, worker: Worker, line: Mapping[str, Any]) -> None:
        """Report a line of a journal."""
        digest = str(line.get("spec", ""))
        spec = self._requests.get(digest)
        match line["event"]:
            case "start" if spec is not None:
                worker.watcher.on_start(spec, int(line["images"]))
            case "batch":
                worker.watcher.on_batch(worker.life.images, worker.life.accuracy)
            case "warning":
                self.watcher.on_warning(str(line["text"]))
            case "refuse":
                self.reasons[digest] = str(line["line"])
            case "end":
                self._written[digest] = Announced(str(line["slug"]), bool(line["new"]))
                self.barren = 0

    def _read_records(self) -> None:
        """Read the records that workers have announced; on a network disk, a file may appear later than its name.

        One that does not appear at all was moved or deleted since: its cell is given out again.
        """
        for digest, announced in list(self._written.items()):
            record = self.store.find_slug(announced.slug)
            is_gone = record is None and time.monotonic() - announced.at > LATE
            if record is None and not is_gone:
                continue
            del self._written[digest]
            if digest not in self._requests or digest in self.ended:
                continue
            if record is None:
                self._mistaken |= {worker.job.name for worker in self.workers if digest in worker.life.ended}
                self.tries[digest] += 1
                self.reasons[digest] = f"its record {announced.slug} was written, but is not there"
                continue
            self.ended[digest] = record
            self.watcher.on_record(record.labelled(self._requests[digest].label), announced.is_new)

    def _end(self, worker: Worker, state: State) -> None:
        """Take note of a worker that has ended, and of the cell that it left unfinished."""
        worker.is_over = True
        worker.watcher.on_worker_end()
        life, name = worker.life, f"worker {worker.index}{f' on {worker.life.host}' * bool(worker.life.host)}"
        self.refused |= self._refused_by_all()
        if life.exit == FINISHED:
            return
        if life.exit.startswith(REFUSED):
            line = life.exit.removeprefix(REFUSED)
            self.watcher.on_warning(f"{name} stopped: {line}")
            self.barren += 1
            self.reasons |= {digest: line for digest in self._requests if digest not in self.reasons}
            return
        if worker.job.is_cancelled:
            self.is_cancelled = True
            self.reasons |= dict.fromkeys(self._requests, CANCELLED)
            return
        last = worker.job.last_lines(worker.index)
        what = f"{name} {life.exit or state.death}{f': {last}' if last else ''}"
        self.due += 1
        self.barren += not life.ended
        if not life.exit or life.spec:
            self.watcher.on_warning(what)
        if life.spec:
            self.tries[life.spec] += 1
            tries = self.tries[life.spec]
            self.reasons[life.spec] = f"{what} (tried {'once' if tries == 1 else f'{tries} times'})"
        elif not life.ended:
            self.reasons = dict.fromkeys(self._requests, what) | self.reasons

    def _refused_by_all(self) -> set[str]:
        """Cells that every worker has refused which could take them."""
        if any(not worker.is_over for worker in self.workers):
            return set()
        return {digest for worker in self.workers for digest in worker.life.refused if digest not in self.ended}

    def _run_elsewhere(self, left: Sequence[CellSpec]) -> bool:
        """Whether all that is left is run by processes that belong to no job: then there is only waiting."""
        held = {digest: worker.life.held[digest] for worker in self.workers for digest in worker.life.held}
        for spec in left:
            slug, key = held.get(spec.digest, ("", ""))
            if not slug:
                return False
            if self.store.find_slug(slug) is not None:
                self._written[spec.digest] = Announced(slug, is_new=False)
            elif not self.store.is_claimed(key):
                return False
        self.watcher.on_wait(len(left))
        return True
