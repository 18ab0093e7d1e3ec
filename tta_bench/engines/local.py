"""Workers on this machine: one process for each job, on its share of the cores or on a GPU of its own.

Processes are started before anything is checked: as copies of this process, which share the torch that it imports, or
as new ones that import it meanwhile. Then they wait for their job.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tta_bench import gpus
from tta_bench.engines import loop
from tta_bench.engines.base import ENDED, RUNNING, UNKNOWN, Engine, State
from tta_bench.engines.job import JobFolder
from tta_bench.errors import UserError
from tta_bench.isolation.processes import Process, copies
from tta_bench.records.store import Store
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.system import SHARING, cores

PATIENCE = 10.0  # seconds for a worker to drop its cell
_BOOT = (
    "import json, sys; sys.path[:], words, here = map(json.loads, sys.argv[1:]); "
    "from tta_bench.engines.loop import main; main(*words, in_process=here)"
)


class Local(Engine):
    """Processes on this machine."""

    accepts = frozenset({"gpus"})
    is_here = True

    def __init__(self, options: RunOptions) -> None:
        super().__init__(options)
        self._ready: list[Process] = []  # wait for their job
        self._started: dict[int, Process] = {}
        self._slots: dict[int, Mapping[str, Any]] = {}  # processes and their GPUs, also of an earlier supervisor
        gpus.refuse_missing(options.gpus)

    @cached_property
    def jobs(self) -> int:
        return self.options.jobs or len(self.options.gpus) or 1

    def warm_up(self, job: JobFolder, workers: int, site: Site) -> None:
        if self.forks and not self.options.gpus:  # what sees a GPU is decided before torch is imported
            os.environ |= self.environment()  # torch reads it when it is imported; setting threads later starts some
            works = [partial(_work, job, index, os.getpid(), site) for index in range(workers)]
            with _refusing():
                self._ready = [self._noted(process, None) for process in copies(works, outlive=True)]
        for index in range(len(self._ready), workers):
            self._ready.append(self._start(job, index, in_process=site.in_process))

    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        served, self._ready = self._ready[:workers], self._ready[workers:]
        self.close()
        try:
            in_process = job.read().at.in_process if len(served) < workers else False
            for index in range(len(served), workers):
                served.append(self._start(job, index, in_process=in_process))
        except BaseException:  # no file names the workers that have a job already
            self._ready = served
            self.close()
            raise
        self._started |= {process.pid: process for process in served}
        return {"host": socket.gethostname(), "processes": [self._slots[process.pid] for process in served]}

    def state(self, job: JobFolder) -> list[State]:
        handle = job.handle
        if handle["host"] != socket.gethostname():
            return [State(UNKNOWN)] * len(handle["processes"])
        return [self._state(slot) for slot in handle["processes"]]

    def cancel(self, job: JobFolder) -> None:
        handle = job.handle
        if handle["host"] != socket.gethostname():
            raise UserError(f"job {job.name} runs on {handle['host']}: cancel it there")
        running = [slot for slot in handle["processes"] if self._is_running(slot)]
        for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
            for slot in running:
                with suppress(ProcessLookupError):
                    os.kill(slot["pid"], number)
            end = time.monotonic() + patience
            while running and time.monotonic() < end:
                running = [slot for slot in running if self._is_running(slot)]
                time.sleep(0.05)

    def finish(self) -> None:
        for process in self._started.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)

    def close(self) -> None:
        for process in self._ready:
            process.kill()
            process.wait()
        self._ready = []

    def _start(self, job: JobFolder, index: int, *, in_process: bool) -> Process:
        gpu, others = self._free_gpu(job.store) if self.options.gpus else (None, 0)
        asked = [str(job.store.folder.absolute()), job.name, index, os.getpid()]
        with _refusing():
            process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), json.dumps(asked), json.dumps(in_process)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # until it has a log
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # it outlives the supervisor
                env={**os.environ, **self.environment(gpu, others)},
            )
        return self._noted(process, gpu)

    def _noted(self, process: Process, gpu: int | None) -> Process:
        self._slots[process.pid] = {"pid": process.pid, "started": _started(process.pid), "gpu": gpu}
        return process

    def environment(self, gpu: int | None = None, others: int = 0) -> dict[str, str]:
        """The environment variables of a worker: its GPU, which may have others, or its share of the cores."""
        threads = str(max(1, cores() // self.jobs))
        found = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads), SHARING: str(self.jobs)}
        if gpu is not None:
            found |= gpus.only(gpu)
        if others or self.jobs > max(len(self.options.gpus), 1):
            found["TTA_BENCH_SHARED_DEVICE"] = "1"
        return found

    def _free_gpu(self, store: Store) -> tuple[int, int]:
        """The GPU with the fewest live processes, also of an earlier supervisor, and how many these are.

        A worker that is replaced may need a moment to end: its GPU is waited for.
        """
        handles = [other.handle for other in JobFolder.all(store)]
        here = [handle for handle in handles if handle.get("host") == socket.gethostname()]
        known = {slot["pid"]: slot for handle in here for slot in handle.get("processes", ()) if "pid" in slot}
        self._slots = {**known, **self._slots}
        gpus, end = self.options.gpus, time.monotonic() + PATIENCE
        while True:
            live = Counter(slot.get("gpu") for slot in self._slots.values() if self._is_running(slot))
            gpu = min(gpus, key=lambda one: live[one])
            if not live[gpu] or self.jobs > len(gpus) or time.monotonic() > end:
                return gpu, live[gpu]
            time.sleep(0.05)

    def _state(self, slot: Any) -> State:
        if self._is_running(slot):
            return State(RUNNING)
        known = self._started.get(slot["pid"]) if isinstance(slot, dict) and isinstance(slot.get("pid"), int) else None
        status = known.returncode if known else None
        return State(ENDED, f"killed by {signal.Signals(-status).name}" if status and status < 0 else "")

    def _is_running(self, slot: Any) -> bool:
        if not isinstance(slot, dict) or not isinstance(slot.get("pid"), int) or "started" not in slot:
            return False  # a stranger's folder may hold anything
        if slot["pid"] in self._started:
            return self._started[slot["pid"]].poll() is None
        return bool(slot["started"]) and bool(slot["started"] == _started(slot["pid"]))


def _work(job: JobFolder, index: int, supervisor: int, site: Site) -> None:
    """What a copy of this process does."""
    nothing = os.open(os.devnull, os.O_WRONLY)  # until it has a log
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    loop.main(str(job.store.folder.absolute()), job.name, index, supervisor, in_process=site.in_process)


@contextmanager
def _refusing() -> Iterator[None]:
    """No memory, or too many processes: in one line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"a worker cannot be started ({error.strerror}): try fewer --jobs") from error


def _started(pid: int) -> str:
    """When a process started, by the system's clock: its number may be used again. Empty if it has ended."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] == "Z" else fields[19]
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip()
