"""What an engine starts: a worker that takes the next cell of a job, claims, runs and saves it, in one warm process."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tta_bench.engines import engine_class
from tta_bench.engines.alive import FINISHED, REFUSED, STOPPED, Sign
from tta_bench.engines.job import Job, JobFolder
from tta_bench.engines.queue import Queue
from tta_bench.errors import RunStopped, UserError
from tta_bench.files import open_own
from tta_bench.isolation.pool import Workers
from tta_bench.records.locks import Try
from tta_bench.records.store import Store


class Stopped(KeyboardInterrupt):
    """The scheduler ends this worker; the current cell is dropped."""


def main(folder: str, name: str, index: int, supervisor: int, *, in_process: bool) -> None:
    """Entry point of a process that starts before its job: imports what it needs, waits for the job, works on it."""
    job = JobFolder(Store(Path(folder)), name)
    with Workers(forks=True) as workers:
        if not in_process:
            workers.warm_up()
        from tta_bench.runs import execute  # noqa: F401  # imports torch

        while not job.job_file.exists():
            if os.getppid() != supervisor:  # it has died before there was a job
                return
            time.sleep(0.02)
        try:
            with open_own(job.log(index), os.O_APPEND) as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            sys.exit(work(job, index, workers))
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)


def work(folder: JobFolder, index: int, workers: Workers) -> int:
    """Work on a job until nothing is left to take; returns the exit status."""
    job = folder.read()
    if not 0 <= index < job.workers:
        line = f"job {folder.name} has workers 0 to {job.workers - 1}, got {index}"
        if index < 0 or engine_class(job.engine).starts_workers:
            raise UserError(line)
        # A scheduler such as Kubernetes starts a fixed number of workers, and would restart a failed one for ever.
        print(f"{line}: nothing to do", file=sys.stderr)
        return 0
    if not job.at.in_process:
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

    store, site = folder.store, job.at
    binder, queue = Binder(site, workers), Queue(store, job.cells, site.device, job.retries)
    try:
        if job.warns and index == 0:
            warn([entry.spec for entry in job.cells], binder, store, sign)
        cells = Cells(binder, store, sign, Try(folder.name, index, socket.gethostname()))
        skip = index  # workers start together, each with another cell
        while not stop.is_set() and (entry := queue.next(skip)) is not None:
            skip = 0
            sign.on_start(entry.spec, 0)  # should the worker die while it reads images and weights
            if cells.find_or_run(entry.spec, entry.require) is None:
                sign.show(spec="")
            else:
                queue.drop(entry)
    finally:
        workers.close()


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
