"""Clocks of devices that this machine lacks, on a fake GPU whose time the test moves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tta_bench.errors import UserError
from tta_bench.measure.clock import EventWatch, Stopwatch, step_watch
from tta_bench.measure.environment import pick_device
from tta_bench.simulated import SimulatedGpus


class FakeGpu:
    """Kernels are queued at once and done later; an event is reached when the kernels before it are done."""

    def __init__(self) -> None:
        self.host = 0.0  # seconds
        self.busy_until = 0.0
        self.copying_until = 0.0
        self.log: list[str] = []

    def kernel(self, seconds: float) -> None:
        self.busy_until = max(self.host, self.busy_until) + seconds
        self.log.append("kernel")

    def synchronize(self, device: object = None) -> None:
        self.host = max(self.host, self.busy_until, self.copying_until)
        self.log.append("synchronize")

    def stream(self, device: object = None) -> FakeStream:
        assert device == CUDA
        return FakeStream(self)

    def event(self, enable_timing: bool = False) -> FakeEvent:
        assert enable_timing
        return FakeEvent(self)


class FakeStream:
    """The stream that kernels are queued on; copies have another."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu

    def synchronize(self) -> None:
        self.gpu.host = max(self.gpu.host, self.gpu.busy_until)
        self.gpu.log.append("synchronize stream")


class FakeEvent:
    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu

    def record(self, stream: FakeStream) -> None:
        assert isinstance(stream, FakeStream)
        self.at = max(self.gpu.host, self.gpu.busy_until)
        self.gpu.log.append("record")

    def synchronize(self) -> None:
        self.gpu.host = max(self.gpu.host, self.at)

    def elapsed_time(self, other: FakeEvent) -> float:
        return 1000 * (other.at - self.at)  # milliseconds, as CUDA gives them


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu()
    monkeypatch.setattr(torch.cuda, "synchronize", fake.synchronize)
    monkeypatch.setattr(torch.cuda, "Event", fake.event)
    monkeypatch.setattr(torch.cuda, "current_stream", fake.stream)
    monkeypatch.setattr("tta_bench.measure.clock.perf_counter", lambda: fake.host)
    return fake


CUDA = torch.device("cuda:1")  # not the current one


@pytest.mark.parametrize("watch", [Stopwatch(CUDA), EventWatch(CUDA)])
def test_queued_kernels_are_counted_and_earlier_ones_are_not(watch: Stopwatch, gpu: FakeGpu) -> None:
    gpu.kernel(5.0)  # of an earlier step, still running
    with watch:
        gpu.kernel(0.2)
        gpu.kernel(0.3)
    assert watch.laps == [pytest.approx(0.5)]


def test_events_see_the_gaps_that_a_waiting_host_leaves(gpu: FakeGpu) -> None:
    watch = EventWatch(CUDA)
    with watch:
        gpu.kernel(0.2)
        gpu.synchronize()  # as `.item()` does
        gpu.host += 0.1  # Python thinks
        gpu.kernel(0.3)
    assert watch.total == pytest.approx(0.6)


def test_the_device_is_synchronised_before_the_first_event(gpu: FakeGpu) -> None:
    with EventWatch(CUDA):
        gpu.kernel(0.1)
    assert gpu.log == ["synchronize stream", "record", "kernel", "record"]


@pytest.mark.parametrize("watch", [Stopwatch(CUDA), EventWatch(CUDA)])
def test_the_next_batch_may_arrive_while_this_one_is_worked_on(watch: Stopwatch, gpu: FakeGpu) -> None:
    gpu.copying_until = 0.4
    with watch:
        gpu.kernel(0.5)
    assert watch.laps == [pytest.approx(0.5)]


def test_only_a_copy_that_outlasts_the_step_is_counted(gpu: FakeGpu) -> None:
    watch, events = Stopwatch(CUDA), EventWatch(CUDA)
    gpu.copying_until = 0.6
    with watch, events:
        gpu.kernel(0.5)
    assert (watch.total, events.total) == (pytest.approx(0.6), pytest.approx(0.5))


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_device_is_waited_for_at_both_ends(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: calls.append("cuda"))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: calls.append("mps"))
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: SimpleNamespace(synchronize=lambda: calls.append("cuda"))
    )
    with Stopwatch(torch.device(kind)):
        calls.append("work")
    assert calls == [kind, "work", kind]


def test_a_gpu_that_is_not_there_is_refused() -> None:
    with SimulatedGpus(2):
        assert [str(pick_device(name)) for name in ("auto", "cuda", "cuda:1", "cpu")] == [
            "cuda",
            "cuda",
            "cuda:1",
            "cpu",
        ]
        assert not torch.cuda.is_initialized()  # a process that only looks takes no memory of a GPU
        with pytest.raises(UserError, match="device 'cuda:2' is not available: this machine has cpu, cuda:0, cuda:1"):
            pick_device("cuda:2")


def test_every_device_has_its_clock() -> None:
    kinds = {kind: type(step_watch(torch.device(kind))).__name__ for kind in ("cpu", "cuda", "mps")}
    assert kinds == {"cpu": "Stopwatch", "cuda": "EventWatch", "mps": "Stopwatch"}
