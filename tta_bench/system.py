"""This process and its system: cores, signals, and work in another process meanwhile."""

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
    """A Ctrl-C in here is not lost: this process gets it at the end. Processes started in here never do."""
    ensure_running()  # multiprocessing would start its tracker with the first process, and let signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, by which a cluster's scheduler ends a job, tidies up and says how to go on, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be caught
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
def meanwhile(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Iterator[Callable[[], T]]:
    """Let a process of its own do some work; the call that this gives waits for the result.

    Should that process die, the work is done in this one.
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
    """For imports of some seconds and little else: walking all that they make takes an eighth of their time."""
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
    """Cores that the system lets this process run on; a batch system often gives fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
