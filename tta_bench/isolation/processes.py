"""Starts a worker's process: a copy of this process while it holds nothing but tta-bench's code, else a new Python.

A copy shares the memory of what is imported, and importing torch takes seconds of CPU time and 300 MB.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
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

    pid: int

    def wait(self) -> int: ...

    def kill(self) -> None: ...


def start(connection: int, memory: int, *, forks: bool = False) -> Process:
    """A process that works for the other end of the connection; both are file descriptors.

    With `forks` it is a copy of this process, if that is possible, else a new Python.
    """
    if forks and can_fork():
        return _fork(connection, memory)
    return subprocess.Popen(
        [sys.executable, "-c", _BOOT, json.dumps(sys.path), str(connection), str(memory)],
        stdin=subprocess.DEVNULL,
        pass_fds=(connection, memory),
        start_new_session=True,  # Ctrl-C is for the host alone
    )


def can_fork() -> bool:
    """Whether a copy of this process can work: no thread is lost, and torch has started nothing."""
    return sys.platform == "linux" and threading.active_count() == 1 and "torch" not in sys.modules


def _fork(connection: int, memory: int) -> Process:
    """A copy of this process, which must hold no labels, only code."""
    with without_collector():
        import timm  # noqa: F401  # the host needs it, too

        from tta_bench.isolation import child
    gc.freeze()  # else a collection would write to, and so copy, the memory that both share
    atexit.register(gc.unfreeze)  # extension modules look for leaks when this process ends
    sys.stdout.flush()
    sys.stderr.flush()
    host = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's threads are idle, and its library takes care of them
        pid = os.fork()
    if pid:
        return _Forked(pid)
    try:
        _leave(host, {connection, memory})
        child.main(connection, memory)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _leave(host: int, kept: set[int]) -> None:
    """Keep nothing of the host's: its terminal, files, signal handlers, and hashes of code that may change."""
    die_with_parent()
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


class _Forked:
    """A copy of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def wait(self) -> int:
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def kill(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
