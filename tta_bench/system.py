"""Process utilities: cores, signals, and work in a background process."""

from __future__ import annotations

import gc
import os
import signal
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
def terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM, which cluster schedulers send to end a job, like Ctrl-C: clean up and say how to resume."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
