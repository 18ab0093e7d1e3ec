"""What an engine starts: a worker that takes the next cell of a job, claims, runs and saves it, in one warm process."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from tta_bench.engines import engine_class
from tta_bench.engines.alive import FINISHED, REFUSED, STOPPED, Sign
from tta_bench.engines.job import Entry, Job, JobFolder
from tta_bench.engines.queue import Queue, Try
from tta_bench.errors import RunStopped, UserError
from tta_bench.isolation.pool import Workers
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.runs.watcher import Watcher


class Stopped(KeyboardInterrupt):
    """The scheduler ends this worker; the current cell is dropped."""


class SignWatcher(Watcher):
    """Writes a worker's progress to its file, and each start of a cell to the queue."""

    def __init__(self, sign: Sign, queue: Queue, job: str, index: int) -> None:
        self._sign, self._queue, self._job, self._index = sign, queue, job, index
        self.entry: Entry | None = None

    def on_start(self, spec: CellSpec, images: int) -> None:
        if self.entry is not None:
            self._queue.note_try(self.entry, Try(self._job, self._index, socket.gethostname(), time.time()))
        self._sign.begin(spec.digest, images)

    def on_cache(self, task: str, done: int, total: int) -> None:
        self._sign.progress(0, 0.0)

    def on_batch(self, images: int, accuracy: float) -> None:
        self._sign.progress(images, accuracy)

    def on_warning(self, text: str) -> None:
        self._sign.warn(text)

    def on_record(self, record: Record, is_new: bool) -> None:
        self._sign.end(is_new=is_new)


def work(folder: JobFolder, index: int, workers: Workers | None = None) -> int:
    """Work on a job until nothing is left to take; returns the exit status."""
    job = folder.read()
    if not 0 <= index < job.workers:
        line = f"job {folder.name} has workers 0 to {job.workers - 1}, got {index}"
        if index < 0 or engine_class(job.engine).starts_workers:
            raise UserError(line)
        # A scheduler such as Kubernetes starts a fixed number of workers, and would restart a failed one for ever.
        print(f"{line}: nothing to do", file=sys.stderr)
        return 0
    workers = workers or Workers()
    if not job.place.in_process:
        workers.warm_up()  # before threads start and labels are read
    sign = Sign(folder.life_file(index))
    try:
        with sign.kept(), stopping() as is_asked_to_stop:
            _loop(job, folder, index, workers, sign, is_asked_to_stop)
        sign.show(exit=STOPPED if is_asked_to_stop.is_set() else FINISHED)
    except Stopped as error:
        sign.show(exit=f"{STOPPED} by {error}")
        return 1
    except UserError as error:
        with suppress(RunStopped):  # its file may be what cannot be written
            sign.show(exit=f"{REFUSED}{error}", spec="")
        raise
    return 0


def _loop(job: Job, folder: JobFolder, index: int, workers: Workers, sign: Sign, stop: threading.Event) -> None:
    from tta_bench.runs.bind import Binder
    from tta_bench.runs.execute import Cells
    from tta_bench.runs.source_check import warn

    site = job.place
    binder = Binder(site, workers)
    queue = Queue(folder.store, job.cells, site.device, job.retries)
    watcher = SignWatcher(sign, queue, folder.name, index)
    try:
        if job.warns and index == 0:
            warn([entry.spec for entry in job.cells], binder, folder.store, watcher)
        cells, skip = Cells(binder, folder.store, watcher), index  # workers start together, each with another cell
        while not stop.is_set() and (entry := queue.next(skip)) is not None:
            skip, watcher.entry = 0, entry
            sign.begin(entry.spec.digest, 0)  # should the worker die while it reads images and weights
            if cells.find_or_run(entry.spec, entry.expected.require) is None:
                sign.end(is_new=False)
            else:
                queue.drop(entry)
    finally:
        binder.workers.close()


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
