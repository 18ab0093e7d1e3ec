"""Times work on a device: by the wall clock, and by CUDA events for single steps on a GPU."""

from __future__ import annotations

from time import perf_counter  # bound now, so that a method that replaces time.perf_counter cannot change our times
from typing import Any

import torch


class Stopwatch:
    """Wall time of work on a device.

    It starts when earlier work on the current stream is done, though the next batch may still be on its way to the GPU.
    It stops when all streams are done, so that a method cannot hide work on another stream. A step shorter than the
    copy of a batch (1 ms for 64 images of 224 pixels) therefore counts as long as the copy.
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
    """Time between two CUDA events: excludes the host's jitter at both ends, includes its delays between kernels."""

    def __enter__(self) -> EventWatch:
        finish_work(self.device)  # kernels of an earlier step do not count
        self._from: Any = torch.cuda.Event(enable_timing=True)
        self._to: Any = torch.cuda.Event(enable_timing=True)
        self._from.record(torch.cuda.current_stream(self.device))  # the default is the first GPU's stream
        return self

    def __exit__(self, *failure: object) -> None:
        self._to.record(torch.cuda.current_stream(self.device))
        self._to.synchronize()
        self.laps.append(self._from.elapsed_time(self._to) / 1e3)


def step_watch(device: torch.device) -> Stopwatch:
    """The most precise stopwatch for a single step on a device."""
    return EventWatch(device) if device.type == "cuda" else Stopwatch(device)


def finish_work(device: torch.device) -> None:
    """Wait for work on the current stream; other streams may continue."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
    else:
        synchronise(device)


def synchronise(device: torch.device) -> None:
    """Wait for all work on the device; a CPU has none pending."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
