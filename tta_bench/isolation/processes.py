"""Starts a worker's process: a copy of this process while it holds nothing but tta-bench's code, else a new Python.

A copy shares the memory of what is imported, and importing torch takes seconds of CPU time and 300 MB.
"""

from __future__ import annotations

import atexit
import gc
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Protocol

from tta_bench.identity.code import code_hash
from tta_bench.system import die_with_parent, without_collector

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from tta_bench.system import die_with_parent; die_with_parent(); "  # first: importing torch takes seconds
    "from tta_bench.isolation.child import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)


class Process(Protocol):
    """A started process, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


def start(connection: int, memory: int, *, forks: bool = False) -> Process:
    """A process that works for the other end of the connection; both are file descriptors.

    With `forks` it is a copy of this process, if that is possible, else a new Python.
    """
    work = partial(_serve, connection, memory)
    if forks and (made := copies([work], keep={connection, memory}, outlive=False)):
        return made[0]
    return subprocess.Popen(
        [sys.executable, "-c", _BOOT, json.dumps(sys.path), str(connection), str(memory)],
        stdin=subprocess.DEVNULL,
        pass_fds=(connection, memory),
        start_new_session=True,  # Ctrl-C is for the host alone
    )


def _serve(connection: int, memory: int) -> None:
    from tta_bench.isolation import child

    child.main(connection, memory)


_is_fresh = False  # whether this process is a copy that has done nothing yet


def can_fork() -> bool:
    """Whether a copy of this process can work: no thread is lost, and torch has started none, and no GPU."""
    return sys.platform == "linux" and threading.active_count() == 1 and (_is_fresh or "torch" not in sys.modules)


def copies(works: Sequence[Callable[[], object]], *, keep: Set[int] = frozenset(), outlive: bool) -> list[Copy]:
    """Copies of this process, one for each work; none if it cannot fork. It must hold no labels, only code.

    Each has a session of its own, and no file that is open here but those to `keep`. They may `outlive` this process.
    """
    global _is_fresh
    if not can_fork():
        return []
    with without_collector():
        import timm  # noqa: F401  # this process needs it, too

        from tta_bench.isolation import child  # noqa: F401
    gc.freeze()  # else a collection would write to, and so copy, the memory that all share
    atexit.register(gc.unfreeze)  # extension modules look for leaks when this process ends
    sys.stdout.flush()
    sys.stderr.flush()
    _is_fresh = False
    return [_copy(work, keep, outlives=outlive) for work in works]


def _copy(work: Callable[[], object], keep: Set[int], *, outlives: bool) -> Copy:
    global _is_fresh
    host = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's threads are idle, and its library takes care of them
        pid = os.fork()
    if pid:
        return Copy(pid)
    try:
        _is_fresh = True
        if not outlives:
            die_with_parent()
        _leave(host, keep)
        work()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _leave(host: int, kept: Set[int]) -> None:
    """Keep nothing of the host's: its terminal, files, signal handlers, and hashes of code that may change."""
    if os.getppid() != host:
        os._exit(1)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    start = 3
    for file in sorted(kept):
        os.closerange(start, file)
        start = file + 1
    os.closerange(start, max(start, os.sysconf("SC_OPEN_MAX")))
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    code_hash.cache_clear()


class Copy:
    """A copy of this process, used like a `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, if it has ended."""
        return self._wait(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        end = math.inf if timeout is None else time.monotonic() + timeout
        while (status := self._wait(0 if timeout is None else os.WNOHANG)) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a copy of this process", timeout or 0)
            time.sleep(0.02)
        return status

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode
