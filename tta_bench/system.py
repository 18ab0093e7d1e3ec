"""Process utilities: cores, signals, and work in a background process."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.resource_tracker import ensure_running
from types import FrameType
from typing import Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
INTERRUPTED = "tta-bench: interrupted"
LONG_IMPORT = 1.0  # seconds
SHARING = "TTA_BENCH_JOBS"  # how many jobs share the cores; set by engines


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block. Processes started in the block never receive it."""
    ensure_running()  # else multiprocessing starts its tracker with the first process, which unblocks signals again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at Ctrl-C and at SIGTERM, which cluster schedulers send to end a job.

    During an import it is raised at the end of the import: Python ignores exceptions in the callbacks that release the
    locks of modules, and torch's C++ code aborts at one. A long import is not waited for: the process exits, which
    is as safe as being killed.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield
        return
    outside = _open_imports(sys._getframe())
    asked: list[float] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _open_imports(frame) <= outside:
            raise KeyboardInterrupt
        asked.append(time.monotonic())
        if asked[-1] - asked[0] > LONG_IMPORT:
            _leave()
        signal.setitimer(signal.ITIMER_REAL, 0.02)  # then SIGALRM asks again

    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in (*handled, signal.SIGALRM)}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave() -> NoReturn:
    """End this process without unwinding what it is doing; its workers end with it."""
    with suppress(Exception):
        sys.stdout.flush()
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(130)


def _open_imports(frame: FrameType | None) -> int:
    """How many of these nested calls belong to the import system."""
    found = 0
    while frame is not None:
        found += frame.f_code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    return found


def die_with_parent() -> None:
    """Let the system kill this process when its parent dies, even if a method never returns."""
    if sys.platform == "linux":
        libc: Any = ctypes.CDLL(None)
        libc.prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG


@contextmanager
def in_background(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Iterator[Callable[[], T]]:
    """Do some work in a background process; the yielded function waits for its result.

    If that process dies, the work is done in this one.
    """
    here, there = get_context("spawn").Pipe(duplex=False)
    process = get_context("spawn").Process(target=_send, args=(there, work, args, kwargs), daemon=True)
    with interrupts_held():
        process.start()
    there.close()

    def result() -> T:
        try:
            found: T = here.recv()
        except EOFError:
            return work(*args, **kwargs)
        return found

    try:
        yield result
    finally:
        process.terminate()
        process.join()
        here.close()


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable garbage collection during slow imports, where it takes an eighth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _send(there: Connection, work: Callable[..., Any], args: Any, kwargs: Any) -> None:
    there.send(work(*args, **kwargs))


def jobs_here() -> int:
    """How many jobs share these cores."""
    given = os.environ.get(SHARING, "")
    return max(1, int(given)) if given.isdecimal() else 1


def cores() -> int:
    """Cores that this process may run on; a batch system often grants fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
