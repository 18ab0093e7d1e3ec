"""Times work on a device: the wall clock of a CPU, and the GPU's own events where there is one."""

from __future__ import annotations

from time import perf_counter  # bound now: a method that replaces time.perf_counter changes no time of ours
from typing import Any

import torch


class Stopwatch:
    """Wall time of work on a device.

    It begins when the work before is done, though the next batch may still be on its way to a GPU, and ends when all is
    done that a GPU was asked for, on whatever stream: a method hides no work there. A step that is shorter than the
    copy of a batch (a millisecond for 64 images of 224 pixels) is therefore counted as long as the copy.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.laps: list[float] = []

    def __enter__(self) -> Stopwatch:
        finish_work(self.device)
        self._start = perf_counter()
        return self

    def __exit__(self, *failure: object) -> None:
        synchronise(self.device)
        self.laps.append(perf_counter() - self._start)

    @property
    def total(self) -> float:
        return sum(self.laps)


class EventWatch(Stopwatch):
    """Time between two events in a CUDA stream: the host's own jitter at the ends is not in it, its delays between
    kernels are."""

    def __enter__(self) -> EventWatch:
        finish_work(self.device)  # an earlier step's kernels are not this one's
        self._from: Any = torch.cuda.Event(enable_timing=True)
        self._to: Any = torch.cuda.Event(enable_timing=True)
        self._from.record(torch.cuda.current_stream(self.device))  # bare, it would be the first GPU's
        return self

    def __exit__(self, *failure: object) -> None:
        self._to.record(torch.cuda.current_stream(self.device))
        self._to.synchronize()
        self.laps.append(self._from.elapsed_time(self._to) / 1e3)


def step_watch(device: torch.device) -> Stopwatch:
    """The finest clock for a single step on a device."""
    return EventWatch(device) if device.type == "cuda" else Stopwatch(device)


def finish_work(device: torch.device) -> None:
    """Wait for what the device was asked for on the stream of work; other streams may go on."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
    else:
        synchronise(device)


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it; a CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
