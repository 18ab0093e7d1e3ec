"""What an engine starts: a worker that takes one cell of a job after the other, in one warm process."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tta_bench.engines import engine_class
from tta_bench.engines.job import Job, JobFolder, Ticket
from tta_bench.engines.journal import FINISHED, REFUSED, STOPPED, Journal, Life
from tta_bench.engines.tickets import identity, mismatch
from tta_bench.errors import RunStopped, UserError
from tta_bench.records.spec import CellSpec
from tta_bench.runs.listing import Watcher

if TYPE_CHECKING:
    from tta_bench.runs.bind import Binder
    from tta_bench.runs.execute import Cells


class Stopped(KeyboardInterrupt):
    """The scheduler ends this worker; the current cell is dropped."""


class JournalWatcher(Watcher):
    """Writes progress to a worker's journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def on_start(self, spec: CellSpec, images: int) -> None:
        self._journal.write("start", spec=spec.digest, images=images)

    def on_cache(self, task: str, done: int, total: int) -> None:
        self._journal.progress(0, 0.0)

    def on_batch(self, images: int, accuracy: float) -> None:
        self._journal.progress(images, accuracy)

    def on_warning(self, text: str) -> None:
        self._journal.write("warning", text=text)


class Queue:
    """The tickets of a job, as one of its workers sees them.

    What others have taken is read from their journals. That is a hint, which keeps workers apart; the claim of a cell
    in the store decides.
    """

    def __init__(self, folder: JobFolder, job: Job, index: int) -> None:
        self._left = {ticket.spec.digest: ticket for ticket in job.tickets}
        self._index = index
        self._jobs = [folder, *(JobFolder(folder.store, name) for name in job.beside)]
        self._own = folder.journal(index)
        self._lives: dict[Path, Life] = {}

    def take(self) -> Ticket | None:
        """The next ticket: one that nobody has started, else one whose worker may have died; None at the end.

        Workers start together, so each first takes the ticket with its own number.
        """
        self._follow()
        running = {life.spec for life in self._lives.values() if not life.exit}
        free = (digest for digest in self._left if digest not in running)
        first = list(islice(free, self._index + 1))
        found = first[-1] if len(first) > self._index else next(iter(first or self._left), None)
        self._index = 0
        return None if found is None else self._left.pop(found)

    def _follow(self) -> None:
        """Forget what others have finished since the last time."""
        for job in self._jobs:
            for path in job.path.glob("*.jsonl"):
                life = self._lives.setdefault(path, Life(path))
                if path != self._own and life.follow():
                    for digest in life.ended:
                        self._left.pop(digest, None)
                    life.forget()


def work(folder: JobFolder, index: int, place: Binder | None = None) -> int:
    """Work on a job until nothing is left to take; returns the exit status."""
    job = folder.read()
    if not 0 <= index < job.workers:
        line = f"job {folder.name} has workers 0 to {job.workers - 1}, got {index}"
        if index < 0 or engine_class(job.engine).starts_workers:
            raise UserError(line)
        # A scheduler such as Kubernetes starts a fixed number of workers, and would restart a failed one for ever.
        print(f"{line}: nothing to do", file=sys.stderr)
        return 0
    journal = Journal(folder.journal(index))
    try:
        with journal.opened(), stopping() as is_asked_to_stop:
            _work(job, folder, index, place, journal, is_asked_to_stop)
        journal.write("exit", why=STOPPED if is_asked_to_stop.is_set() else FINISHED)
    except Stopped as error:
        journal.write("exit", why=f"{STOPPED} by {error}")
        return 1
    except UserError as error:
        with suppress(RunStopped):  # its journal may be what cannot be written
            journal.write("exit", why=f"{REFUSED}{error}")
        raise
    return 0


def _work(
    job: Job, folder: JobFolder, index: int, place: Binder | None, journal: Journal, stop: threading.Event
) -> None:
    from tta_bench.runs.bind import Binder
    from tta_bench.runs.execute import Cells
    from tta_bench.runs.tripwire import warn

    place = place or Binder(job.place)
    watcher = JournalWatcher(journal)
    place.on_cache = watcher.on_cache
    place.workers.warm_up()
    try:
        if job.warns and index == 0:
            warn([ticket.spec for ticket in job.tickets], place, folder.store, watcher)
        cells, queue = Cells(place, folder.store, watcher), Queue(folder, job, index)
        while not stop.is_set() and (ticket := queue.take()) is not None:
            _do(ticket, cells, place, journal)
    finally:
        place.workers.close()


def _do(ticket: Ticket, cells: Cells, place: Binder, journal: Journal) -> None:
    spec = ticket.spec
    journal.write("take", spec=spec.digest)
    if ticket.expected is not None:
        line = mismatch(ticket.expected, identity(place.bind(spec).cell), socket.gethostname())
        if line:
            journal.write("refuse", spec=spec.digest, line=line)
            print(f"refused {spec.label} on {spec.name}, seed {spec.seed}: {line}", file=sys.stderr, flush=True)
            return
    outcome = cells.find_or_run(spec)
    if outcome is None:
        cell = place.bind(spec).cell
        journal.write("leave", spec=spec.digest, slug=cell.slug, key=cell.key)
        return
    record = outcome.record
    journal.write("end", spec=spec.digest, slug=record.cell.slug, status=record.status, new=outcome.is_new)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """SIGUSR1, Slurm's early signal, lets the current cell finish and ends the worker then; SIGTERM drops the cell."""
    asked = threading.Event()

    def finish(number: int, frame: FrameType | None) -> None:
        asked.set()

    def drop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # schedulers repeat it, and dropping a cell cleanly takes a moment
        raise Stopped(signal.Signals(number).name)

    before = signal.signal(signal.SIGUSR1, finish), signal.signal(signal.SIGTERM, drop)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGTERM, before[1])
