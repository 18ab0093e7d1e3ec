"""Workers on a Ray cluster: each is a process that a detached actor starts on a node and waits for.

A detached actor outlives the supervisor, and holds CPUs and GPUs until its worker has ended. The run folder must be
on a disk that all nodes share, and every node needs the same Python environment.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cached_property
from typing import Any

from tta_bench.engines.base import ENDED, RUNNING, WAITING, Engine, State
from tta_bench.engines.job import JobFolder
from tta_bench.errors import UserError
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.system import cores

NAMESPACE = "tta-bench"
PATIENCE = 10.0  # seconds for a cluster to accept a connection


class Ray(Engine):
    """Workers on a Ray cluster."""

    accepts = frozenset({"address", "gpus_per_cell"})

    def __init__(self, options: RunOptions) -> None:
        super().__init__(options)
        try:
            import ray
        except ImportError:
            raise UserError("--on ray: Ray is not installed: pip install 'tta-bench[ray]'") from None
        self._ray: Any = ray
        self._is_connected = False
        self._address = (options.on or "").partition("=")[2]

    @cached_property
    def jobs(self) -> int:
        """One worker per GPU share; without GPUs one per CPU."""
        self._connect(self._address)
        there, gpus = self._ray.cluster_resources(), self.options.gpus_per_cell
        fits = int(there.get("GPU", 0) / gpus) if gpus else int(there.get("CPU", 1))
        if fits < 1:
            has = f"{there.get('GPU', 0):g} GPUs"
            raise UserError(f"--gpus-per-cell {gpus:g}: the Ray cluster has {has}")
        return self.options.jobs or fits

    def warm_up(self, job: JobFolder, workers: int, site: Site) -> None:
        self._connect(self._address)  # refuses a wrong address before any data are read

    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        self._connect(self._address)
        options = {"num_cpus": 1, "num_gpus": self.options.gpus_per_cell or 0, "lifetime": "detached"}
        actor = self._ray.remote(Runner)
        for index in range(workers):
            words = [sys.executable, "-m", "tta_bench", "work", str(job.store.folder.absolute())]
            # The cluster keeps what makes an actor; a call of its method would die with this process.
            made = actor.options(name=_name(job, index), namespace=NAMESPACE, **options)
            made.remote([*words, job.name, str(index)], str(job.log(index)), options["num_gpus"])
        return {"address": self._address}

    def state(self, job: JobFolder) -> list[State]:
        self._connect(str(job.handle.get("address", "")))
        return [self._state(job, index) for index in range(int(job.handle["workers"]))]

    def cancel(self, job: JobFolder) -> None:
        self._connect(str(job.handle.get("address", "")))
        for index in range(int(job.handle["workers"])):
            self._kill(job, index)

    def withdraw(self, job: JobFolder) -> None:
        for index, state in enumerate(self.state(job)):
            if state.word == WAITING:
                self._kill(job, index)

    def close(self) -> None:
        if self._is_connected:
            self._is_connected = False
            self._ray.shutdown()

    def _kill(self, job: JobFolder, index: int) -> None:
        with suppress(ValueError):  # it has ended
            self._ray.kill(self._ray.get_actor(_name(job, index), namespace=NAMESPACE))

    def _state(self, job: JobFolder, index: int) -> State:
        try:
            self._ray.get_actor(_name(job, index), namespace=NAMESPACE)
        except ValueError:
            return State(ENDED)
        return State(RUNNING if job.life_file(index).exists() else WAITING)

    def _connect(self, address: str) -> None:
        if self._is_connected or self._ray.is_initialized():
            return
        refuse_silent(address)
        try:
            self._ray.init(address or "auto", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise UserError(f"--on ray: {_why(error, address)}") from error
        self._is_connected = True


def refuse_silent(address: str) -> None:
    """Refuse HOST:PORT where nothing listens: Ray itself would try for minutes."""
    found = re.fullmatch(r"(?:ray://)?\[?(.+?)\]?:(\d+)", address)
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"--on ray: no Ray cluster answers at {address}: {why}") from error


class Runner:
    """The actor: runs a worker's process on its node, with the CPU and GPUs that Ray grants, and ends with it."""

    def __init__(self, words: list[str], log: str, gpus: float) -> None:
        with open(log, "ab") as file:  # noqa: PTH123
            worker = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **sharing(gpus)},
                preexec_fn=_end_with_actor,
            )
        threading.Thread(target=_leave_after, args=[worker], daemon=True).start()


def sharing(gpus: float) -> dict[str, str]:
    """The environment variable of a worker whose device others may use: one of several CPUs, or a part of a GPU."""
    is_whole = gpus == int(gpus) if gpus else cores() == 1
    return {} if is_whole else {"TTA_BENCH_SHARED_DEVICE": "1"}


def _leave_after(worker: subprocess.Popen[bytes]) -> None:
    worker.wait()
    os._exit(0)  # a thread cannot call ray.actor.exit_actor


def _end_with_actor() -> None:
    """Let the system stop the worker when its actor is killed, so that it drops its cell."""
    if sys.platform == "linux":
        libc: Any = ctypes.CDLL(None)
        libc.prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG


def _name(job: JobFolder, index: int) -> str:
    return f"{job.name}-{index}"


def _why(error: Exception, address: str) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, RuntimeError) and any("ersion" in line for line in lines):
        return f"the cluster runs another version of Ray or Python than this machine: {' '.join(lines)}"
    if address not in ("", "auto"):
        return f"no Ray cluster answers at {address}: {lines[0] if lines else type(error).__name__}"
    return "no Ray cluster runs here: start one with `ray start --head`, or name one with --on ray=ADDRESS"
