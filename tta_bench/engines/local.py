"""Workers on this machine: one process for each job, on its share of the cores or on a GPU of its own.

A process is started before anything is checked, so that it imports torch at once. The first one does the checks; then
all get a line with the job that they belong to.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from tta_bench.engines.base import ENDED, RUNNING, UNKNOWN, Engine, Options, State
from tta_bench.engines.job import JobFolder
from tta_bench.engines.tickets import Hints, passes
from tta_bench.errors import UserError
from tta_bench.records.spec import CellSpec
from tta_bench.runs.site import Site
from tta_bench.runs.spec import read_spec
from tta_bench.system import cores

PATIENCE = 10.0  # seconds for a worker to drop its cell
_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tta_bench.engines.local import main; main()"


class Local(Engine):
    """Processes on this machine."""

    accepts = frozenset({"gpus"})

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._ready: list[subprocess.Popen[bytes]] = []  # started, without a job
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._places: dict[int, Mapping[str, Any]] = {}  # processes and their GPUs, also of an earlier coordinator
        refuse_missing_gpus(options.gpus)

    @cached_property
    def jobs(self) -> int:
        return self.options.jobs or len(self.options.gpus) or 1

    def check(self, requests: Sequence[CellSpec], site: Site) -> Hints:
        self._ready = [self._start() for _ in range(min(self.jobs, len(requests)))]
        first = self._ready[0]
        asked = {"specs": [spec.to_json() for spec in requests], "site": site.to_json()}
        with suppress(BrokenPipeError):
            _put(first, asked)
        answer = _line(first.stdout)
        if answer is None:
            raise UserError(f"the checking process {_ending(first.wait())}: run without --jobs to see why")
        if "refused" in answer:
            raise UserError(answer["refused"])
        return Hints(answer["passes"])

    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        self._note_others(job)
        served: list[subprocess.Popen[bytes]] = []
        try:
            for index in range(workers):
                served.append(self._serve(job, index))
        except BaseException:  # nobody would know of those that have a job already
            for process in served:
                _kill(process)
            raise
        self.close()
        self._started |= {process.pid: process for process in served}
        return {"host": socket.gethostname(), "processes": [self._places[process.pid] for process in served]}

    def state(self, job: JobFolder) -> list[State]:
        handle = job.handle
        if handle["host"] != socket.gethostname():
            return [State(UNKNOWN)] * len(handle["processes"])
        return [State(RUNNING if self._is_running(process) else ENDED) for process in handle["processes"]]

    def cancel(self, job: JobFolder) -> None:
        handle = job.handle
        if handle["host"] != socket.gethostname():
            raise UserError(f"job {job.name} runs on {handle['host']}: cancel it there")
        running = [process for process in handle["processes"] if self._is_running(process)]
        for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
            for process in running:
                with suppress(ProcessLookupError):
                    os.kill(process["pid"], number)
            end = time.monotonic() + patience
            while running and time.monotonic() < end:
                running = [process for process in running if self._is_running(process)]
                time.sleep(0.05)

    def finish(self) -> None:
        for process in self._started.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)

    def close(self) -> None:
        for process in self._ready:
            _kill(process)
        self._ready = []

    def _serve(self, job: JobFolder, index: int) -> subprocess.Popen[bytes]:
        """Give a process its job. One that has died since the checks, as for want of memory, gets a second chance."""
        asked = {"folder": str(job.store.folder.absolute()), "job": job.name, "index": index}
        for _ in range(len(self._ready) + 1):
            process = self._ready.pop(0) if self._ready else self._start()
            try:
                _put(process, asked)
            except OSError:
                _kill(process)
                continue
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
            return process
        raise UserError(f"worker {index} {_ending(process.returncode)} before it got its job: try fewer --jobs")

    def _start(self) -> subprocess.Popen[bytes]:
        gpu, others = self._free_gpu() if self.options.gpus else (None, 0)
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # until it has a log
                start_new_session=True,  # it outlives the coordinator
                env={**os.environ, **self.environment(gpu, others)},
            )
        except OSError as error:  # no memory, or too many processes
            raise UserError(f"a worker cannot be started ({error.strerror}): try fewer --jobs") from error
        self._places[process.pid] = {"pid": process.pid, "started": _started(process.pid), "gpu": gpu}
        return process

    def environment(self, gpu: int | None = None, others: int = 0) -> dict[str, str]:
        """The environment variables of a worker: its GPU, which may have others, or its share of the cores."""
        threads = str(max(1, cores() // self.jobs))
        found = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
        if gpu is not None:
            found["CUDA_VISIBLE_DEVICES"] = str(gpu)
        if others or self.jobs > max(len(self.options.gpus), 1):
            found["TTA_BENCH_SHARED_DEVICE"] = "1"
        return found

    def _free_gpu(self) -> tuple[int, int]:
        """The GPU with the fewest live processes, and how many these are.

        A worker that is replaced may need a moment to end: its GPU is waited for.
        """
        gpus, end = self.options.gpus, time.monotonic() + PATIENCE
        while True:
            live = Counter(place.get("gpu") for place in self._places.values() if self._is_running(place))
            gpu = min(gpus, key=lambda one: live[one])
            if not live[gpu] or self.jobs > len(gpus) or time.monotonic() > end:
                return gpu, live[gpu]
            time.sleep(0.05)

    def _note_others(self, job: JobFolder) -> None:
        """Take note of the workers of an earlier coordinator, which may hold GPUs."""
        if self.options.gpus:
            handles = [other.handle for other in JobFolder.all(job.store)]
            here = [handle for handle in handles if handle.get("host") == socket.gethostname()]
            known = {place["pid"]: place for handle in here for place in handle.get("processes", ())}
            self._places = {**known, **self._places}

    def _is_running(self, place: Any) -> bool:
        if not isinstance(place, dict) or not isinstance(place.get("pid"), int) or "started" not in place:
            return False  # a stranger's folder may hold anything
        if place["pid"] in self._started:
            return self._started[place["pid"]].poll() is None
        return bool(place["started"]) and bool(place["started"] == _started(place["pid"]))


def refuse_missing_gpus(gpus: Sequence[int]) -> None:
    """Refuse GPUs that this machine does not have, as far as is known without torch."""
    there = sorted(int(path.name.removeprefix("nvidia")) for path in Path("/dev").glob("nvidia[0-9]*"))
    missing = [str(gpu) for gpu in gpus if gpu not in there]
    if missing:
        has = ", ".join(map(str, there)) or "none"
        raise UserError(f"--gpus {','.join(map(str, gpus))}: this machine has no GPU {missing[0]} (GPUs: {has})")


def main() -> None:
    """Entry point of a worker's process: checks what it is asked to, then works on its job."""
    from tta_bench.runs.workers import Workers

    workers = Workers()
    workers.warm_up()
    from tta_bench.runs.bind import Binder
    from tta_bench.runs.execute import refuse_unfit

    place = None
    try:
        asked = _line(sys.stdin.buffer)
        if asked is not None and "specs" in asked:
            requests = [read_spec(spec) for spec in asked["specs"]]
            place = Binder(Site.from_json(asked["site"]), workers)
            print(json.dumps(_checked(requests, lambda: refuse_unfit(requests, place))), flush=True)
            asked = _line(sys.stdin.buffer)
        if asked is None:  # the coordinator has gone
            return
        _work(asked, place, workers)
    finally:
        workers.close()


def _checked(requests: Sequence[CellSpec], check: Any) -> dict[str, Any]:
    try:
        check()
        return {"passes": passes(requests)}
    except UserError as error:
        return {"refused": str(error)}


def _work(asked: dict[str, Any], place: Any, workers: Any) -> None:
    from tta_bench.engines.work import work
    from tta_bench.records.store import Store
    from tta_bench.runs.bind import Binder

    folder = JobFolder(Store.open(Path(asked["folder"])), asked["job"])
    log = os.open(folder.log(asked["index"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        sys.exit(work(folder, asked["index"], place or Binder(folder.read().place, workers)))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _put(process: subprocess.Popen[bytes], content: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(content).encode() + b"\n")
    process.stdin.flush()


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # it may hold a line that nobody reads any more
                pipe.close()


def _line(channel: IO[bytes] | None) -> dict[str, Any] | None:
    """The next line that is JSON; None at the end. An imported package may print, too."""
    while channel is not None and (line := channel.readline()):
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                return found
    return None


def _started(pid: int) -> str:
    """When a process started, as its system counts it: tells it from a later one with its number. Empty if gone."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] == "Z" else fields[19]
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip()


def _ending(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
