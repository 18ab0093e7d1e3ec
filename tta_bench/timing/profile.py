"""Where a step's time goes: forward, backward, optimiser, waiting for the device, loading."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tta_bench.isolation.adapter import read
from tta_bench.measure.clock import Stopwatch
from tta_bench.timing.steps import Steps, naming
from tta_bench.timing.workload import REFERENCE, Bench

STEP = "tta-bench: step"
PARTS = ("forward", "backward", "optimiser", "host sync", "Python and rest", "loading")
# Operators that make the host wait for a value from the device; cheap on a CPU.
SYNCS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero")
CUDA_SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


@dataclass(frozen=True)
class Profile:
    """Milliseconds per batch, by part and by operator."""

    parts: dict[str, float]
    device_parts: dict[str, float]  # on a GPU: time of its kernels
    operators: list[tuple[str, str, float]]  # part, name, milliseconds; the costliest first
    step: float  # without the profiler's overhead
    times_source: float


def take(prepared: Bench, label: str, trace: Path) -> Profile:
    """Profile one pass of a method's steps after a warm-up; the trace opens in chrome://tracing or Perfetto."""
    steps = Steps(prepared.workload, label)
    source = Steps(prepared.workload, REFERENCE)
    count = len(steps.batches)
    plain, base = sum(map(steps, range(count))), sum(map(source, range(count)))
    device = torch.device(prepared.workload.device)
    cuda = [ProfilerActivity.CUDA] if device.type == "cuda" else []
    steps.method.reset()
    with _mute_stderr(), profile(activities=[ProfilerActivity.CPU, *cuda]) as seen:
        for batch in steps.batches:
            with naming(label), record_function(STEP), Stopwatch(device):
                steps.method.adapt(batch)
    seen.export_chrome_trace(str(trace))
    found = Tally(list(seen.events() or []))
    parts = {part: found.host[part] / 1e3 / count for part in PARTS}
    parts["loading"] = _loading(prepared) * 1e3 / count
    return Profile(
        parts=parts,
        device_parts={part: found.device[part] / 1e3 / count for part in PARTS} if cuda else {},
        operators=[
            (part, name, us / 1e3 / count)
            for (part, name), us in sorted(found.operators.items(), key=lambda item: -item[1])
        ],
        step=plain * 1e3 / count,
        times_source=plain / base,
    )


@contextmanager
def _mute_stderr() -> Iterator[None]:
    """Silence torch's profiler, which writes to stderr directly when it starts and stops."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _loading(prepared: Bench) -> float:
    """Seconds to read the batches of a pass."""
    first = prepared.first
    watch = Stopwatch(first.setup.device)
    plan = list(first.stream.batches(first.cell.spec.batch_size))
    with closing(read(first.stream.images, plan, first.setup.device, 0)) as batches:
        for _ in plan:
            with watch:
                next(batches)
    return watch.total


class Tally:
    """Sums up a profiler's events, in microseconds, by the part of a step they belong to."""

    def __init__(self, events: list[Any]) -> None:
        self.host: defaultdict[str, float] = defaultdict(float)
        self.device: defaultdict[str, float] = defaultdict(float)
        self.operators: defaultdict[tuple[str, str], float] = defaultdict(float)
        steps = [event for event in events if event.name == STEP]
        threads = {event.thread for event in steps}
        covered = 0.0
        for event in _tops(events):
            self._add(event, part_of(event.name))
            # On a GPU, backward runs in its own thread while the step's thread waits.
            is_inside = event.thread in threads or part_of(event.name) == "backward"
            covered += event.cpu_time_total if is_inside else 0.0
        self.host["Python and rest"] += max(0.0, sum(event.cpu_time_total for event in steps) - covered)

    def _add(self, event: Any, part: str) -> None:
        """Add an event's own time to its part, and its children's to theirs; what backward calls is backward."""
        self.host[part] += event.self_cpu_time_total
        self.device[part] += getattr(event, "self_device_time_total", 0.0)
        self.operators[part, event.name] += event.self_cpu_time_total
        for child in event.cpu_children:
            inner = part_of(child.name)
            self._add(child, inner if part == "forward" or inner == "host sync" else part)


def _tops(events: list[Any]) -> Iterator[Any]:
    """The outermost operators of all steps, whichever thread ran them."""
    for event in events:
        if event.name == STEP:
            yield from event.cpu_children
        elif event.cpu_parent is None and str(event.device_type).endswith("CPU"):
            yield event


def part_of(name: str) -> str:
    """The part of a step that an operator belongs to."""
    if name.startswith("autograd::engine::"):
        return "backward"
    if name.startswith(("Optimizer.", "aten::_foreach_")):
        return "optimiser"
    if name in SYNCS or name in CUDA_SYNCS:
        return "host sync"
    return "forward"
