"""Streams and events of simulated GPUs: all work is done at once, but in what order it was *promised* is known.

A result belongs to the stream that computed it. Another stream may use it only after waiting for it, by an event, the
stream, or the host; CUDA would read whatever is in memory by then, the simulation raises.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tta_bench.simulated.machine import Machine

Seen = dict[int, int]  # how much of each stream's work is known to be done, by the stream's number


def merge(into: Seen, seen: Seen) -> None:
    for stream, count in seen.items():
        into[stream] = max(into.get(stream, 0), count)


class Stream:
    """A queue of work on one GPU."""

    machine: Machine

    def __init__(self, device: Any = None, priority: int = 0, **unused: Any) -> None:
        self.device = self.machine.gpu(device)
        self.machine.every_stream.append(self)
        self.stream_id = len(self.machine.every_stream)
        self.issued = 0
        self.seen: Seen = {}

    def issue(self) -> int:
        """The number of one more piece of work on this stream."""
        self.issued += 1
        return self.issued

    def knows(self, stream: int, number: int) -> bool:
        """Whether that work is done before any further work of this stream."""
        if stream == self.stream_id or self.seen.get(stream, 0) >= number:
            return True
        return self.machine.host.get(stream, 0) >= number

    def now(self) -> Seen:
        """What is done when the work issued so far is done."""
        return {**self.seen, self.stream_id: self.issued}

    def wait_event(self, event: Event) -> None:
        merge(self.seen, event.seen)

    def wait_stream(self, stream: Stream) -> None:
        merge(self.seen, stream.now())

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        self.machine.wait("synchronize")
        merge(self.machine.host, self.now())

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream_id == self.stream_id

    def __hash__(self) -> int:
        return self.stream_id

    def __enter__(self) -> Stream:
        self._outer = self.machine.enter_stream(self)
        return self

    def __exit__(self, *failure: object) -> None:
        self.machine.leave_stream(self._outer)


class Event:
    """A point in a stream's work."""

    machine: Machine

    def __init__(self, enable_timing: bool = False, blocking: bool = False, **unused: Any) -> None:
        self.is_timed = enable_timing
        self.at: float | None = None
        self.seen: Seen = {}

    def record(self, stream: Stream | None = None) -> None:
        self.seen = (stream or self.machine.stream()).now()
        self.at = perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        (stream or self.machine.stream()).wait_event(self)

    def synchronize(self) -> None:
        self.machine.wait("synchronize")
        merge(self.machine.host, self.seen)

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds until another event, by the host's clock."""
        if not (self.is_timed and end.is_timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.at is None or end.at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 1e3 * (end.at - self.at)


class StreamContext:
    """`torch.cuda.stream(stream)`: work in the block is issued on that stream."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self._outer = self.stream.machine.enter_stream(self.stream)

    def __exit__(self, *failure: object) -> None:
        if self.stream is not None:
            self.stream.machine.leave_stream(self._outer)


class DeviceContext:
    """`torch.cuda.device(gpu)`: that GPU is the current one in the block."""

    machine: Machine

    def __init__(self, device: Any) -> None:
        self.device = None if isinstance(device, int) and device < 0 else self.machine.gpu(device)

    def __enter__(self) -> None:
        self._outer: torch.device = self.machine.current
        if self.device is not None:
            self.machine.current = self.device

    def __exit__(self, *failure: object) -> None:
        self.machine.current = self._outer
