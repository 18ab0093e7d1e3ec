"""Worker processes, as their host sees them: started early, kept warm, replaced when something went wrong.

Built-in methods share one worker. Every cell of another package's method gets a new one, so that nothing it leaves
behind can touch another result; a spare worker is started in advance, since importing torch takes seconds.
"""

from __future__ import annotations

import math
import mmap
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any

import msgspec

from tta_bench import registry
from tta_bench.errors import CellFailed, RunStopped
from tta_bench.isolation import messages, processes
from tta_bench.isolation.messages import (
    Answered,
    Assignment,
    Batch,
    CodeChanged,
    End,
    Finished,
    Learned,
    NextBatch,
    NextSource,
    Raised,
)
from tta_bench.records.record import Measured

if TYPE_CHECKING:
    from torch import Tensor

    from tta_bench.isolation.host import WorkHost

SLOTS = 3  # batches in shared memory: one in use, one waiting, one being written
PATIENCE = 600.0  # seconds that a method may take for one batch, or a worker to start
LONGEST = 2e6  # seconds to wait for one message: the system's timers overflow after 25 days


class WorkerDied(CellFailed):
    """A worker's process ended in the middle of a cell."""


class MethodRaised(CellFailed):
    """A method raised an exception in a worker; carries the traceback from there."""

    def __init__(self, line: str, traceback: str) -> None:
        super().__init__(line)
        self.traceback = traceback


class Workers:
    """The workers of one run: at most one warm worker and one spare."""

    def __init__(self, *, forks: bool = False) -> None:
        """With `forks` the first one is a copy of this process, which must not hold labels yet."""
        self._forks = forks
        self._warm: Worker | None = None  # has run nothing but built-in methods
        self._spare: Worker | None = None  # has run nothing

    def warm_up(self) -> None:
        """Start the first worker: a copy that shares this process's torch, or a new process that imports it."""
        self._spare = self._spare or Worker(forks=self._forks)

    def adapt(self, host: WorkHost, time_limit: float | None = None, patience: float = PATIENCE) -> Measured:
        """Adapt in a worker. CellFailed if the method failed, hung, or ended its process.

        RunStopped if its code is no longer what the cell names. The limits, in seconds, are those of the cell and of a
        single batch.
        """
        is_built_in = registry.installed().is_built_in(host.work.setup.method)
        worker = (self._warm if is_built_in else None) or self._spare or Worker()
        if worker is self._spare:
            self._spare = None
        if worker is self._warm:
            self._warm = None
        if not is_built_in:
            self.warm_up()  # for the next cell
        is_clean = False
        try:
            measured = worker.adapt(host, time_limit, patience)
            is_clean = is_built_in and not measured.remarks  # what a method leaves behind ends with its process
        finally:
            if is_clean:
                self._warm = worker
            else:
                worker.end()
        return measured

    def close(self) -> None:
        """End all workers."""
        for worker in filter(None, (self._warm, self._spare)):
            worker.end()
        self._warm = self._spare = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


class Worker:
    """One worker process, and the memory that it shares with this one."""

    def __init__(self, *, forks: bool = False) -> None:
        self._connection, theirs = Pipe()
        self._memory = _Memory()
        self._process = processes.start(theirs.fileno(), self._memory.file, forks=forks)
        theirs.close()

    def adapt(self, host: WorkHost, time_limit: float | None, patience: float = PATIENCE) -> Measured:
        """Let the worker adapt, and serve it until it is done."""
        needs_source = host.work.source_images is not None
        source, batches = host.source() if needs_source else None, host.batches()
        deadline = None
        self._send(_assignment(host, needs_source=needs_source))
        while True:
            message = self._receive(deadline, time_limit, patience)
            if deadline is None and time_limit is not None:
                deadline = time.monotonic() + time_limit  # from its first word on: imports are not the method's time
            match message:
                case NextSource(reader):
                    self._send(self._memory.put(reader, source))
                case NextBatch(reader):
                    self._send(self._memory.put(reader, batches))
                case Answered():
                    host.answer(_answer(message))
                case Learned(state, cost):
                    host.learned(*_learned(state, cost))
                case Finished(measured):
                    return Measured(**measured)
                case CodeChanged():
                    raise RunStopped(
                        f"the code of '{host.work.cell.spec.method}' changed since this run started: start it again "
                        "(in a notebook: restart the kernel first)"
                    )
                case Raised(line, traceback, is_expected):
                    raise CellFailed(line) if is_expected else MethodRaised(line, traceback)

    def end(self) -> None:
        """End the process at once, whatever it does."""
        self._connection.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # and what a method started
        self._process.kill()  # a copy may not have its own group yet
        self._process.wait()
        self._memory.close()

    def _send(self, message: messages.ToWorker) -> None:
        try:
            self._connection.send_bytes(messages.encode(message))
        except OSError as error:
            raise self._death() from error

    def _receive(self, deadline: float | None, time_limit: float | None, patience: float) -> messages.FromWorker:
        whole = math.inf if deadline is None else deadline - time.monotonic()
        try:
            if whole <= 0 or not self._connection.poll(min(whole, patience, LONGEST)):
                what, limit = ("a single batch", patience) if patience < whole else ("the cell", time_limit or 0)
                raise CellFailed(f"stopped: {what} took longer than {_duration(limit)} (--time-limit)")
            return messages.from_worker.decode(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._death() from error
        except msgspec.MsgspecError as error:
            raise WorkerDied(f"its process sent a damaged message ({error})") from error

    def _death(self) -> WorkerDied:
        status = self._process.wait()
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
        return WorkerDied(f"its process {how}")


class _Memory:
    """Shared memory for batches, in a file without a name: /dev/shm is small in containers."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.file = os.memfd_create("tta-bench")
        else:
            with tempfile.TemporaryFile() as file:
                self.file = os.dup(file.fileno())
        self._map: mmap.mmap | None = None
        self._size = self._turn = 0  # bytes of a slot; slots filled so far

    def put(self, reader: int, batches: Iterator[Tensor] | None) -> Batch | End:
        """Put the next batch in place; `End` if there is none."""
        batch = None if batches is None else next(batches, None)
        if batch is None:
            return End(reader)
        content = batch.numpy().reshape(-1)
        if self._map is None or len(content) > self._size:
            self._size = -(-len(content) // mmap.PAGESIZE) * mmap.PAGESIZE
            os.ftruncate(self.file, SLOTS * self._size)
            self._map = mmap.mmap(self.file, SLOTS * self._size)
        offset = (self._turn % SLOTS) * self._size
        self._turn += 1
        self._map[offset : offset + len(content)] = content.data
        return Batch(reader, offset, list(batch.shape), SLOTS * self._size)

    def close(self) -> None:
        os.close(self.file)


def _assignment(host: WorkHost, *, needs_source: bool) -> Assignment:
    import numpy as np
    from safetensors.torch import save

    setup = host.work.setup
    known = host.known() if needs_source else None
    labels = [batch.numpy() for batch in host.source_labels()] if needs_source else []
    return Assignment(
        setup=pickle.dumps(replace(setup, model=None)),  # type: ignore[arg-type]
        model=setup.model_name,
        weights=setup.model.weights_hash,
        method_code=host.work.cell.found.method_code.partition("+")[0],  # without the files that settings name
        needs_source=needs_source,
        source_labels=np.concatenate(labels).astype(np.int64).tobytes() if labels else b"",
        known=save(known[0]) if known else None,
        cost=asdict(known[1]) if known else None,
    )


def _answer(message: Answered) -> Any:
    import numpy as np

    from tta_bench.isolation.logits import Answer

    table = np.frombuffer(message.table, np.float32).reshape(message.rows, -1)
    return Answer(table, np.frombuffer(message.probabilities, np.float32).reshape(-1, table.shape[1]))


def _learned(state: bytes, cost: dict[str, Any]) -> tuple[Any, Any]:
    from safetensors.torch import load

    from tta_bench.isolation.prepared import Cost

    return load(state), Cost(**cost)


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
