"""Process utilities: cores, signals, and work in a background process."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.resource_tracker import ensure_running
from types import FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


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

    During an import it may be lost: Python ignores exceptions in the callbacks that release the locks of modules, and
    packages may catch it or turn it into another. So it is raised again until the block ends.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield
        return
    outside = _open_imports(sys._getframe())
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked or _open_imports(frame) > outside:
            asked = True
            signal.setitimer(signal.ITIMER_REAL, 0.02)  # then SIGALRM asks again
            if _is_import_system(frame) or isinstance(sys.exc_info()[1], KeyboardInterrupt):
                return  # where it would be lost, or while it is being handled
        raise KeyboardInterrupt

    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in (*handled, signal.SIGALRM)}
    try:
        yield
    except BaseException:
        if not asked:
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        raise KeyboardInterrupt


def _open_imports(frame: FrameType | None) -> int:
    """How many of these nested calls belong to the import system."""
    found = 0
    while frame is not None:
        found += _is_import_system(frame)
        frame = frame.f_back
    return found


def _is_import_system(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")


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


def cores() -> int:
    """Cores that this process may run on; a batch system often grants fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
