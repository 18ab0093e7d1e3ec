"""`tta-bench profile`: the parts of a step are separated."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tta_bench.timing.profile import STEP, Tally, part_of


@dataclass
class Event:
    """What we read of torch's profiler events."""

    name: str
    self_cpu_time_total: float
    cpu_children: list[Event] = field(default_factory=list)
    thread: int = 1
    cpu_parent: Event | None = None
    device_type: str = "DeviceType.CPU"
    self_device_time_total: float = 0.0

    def __post_init__(self) -> None:
        for child in self.cpu_children:
            child.cpu_parent = self

    @property
    def cpu_time_total(self) -> float:
        return self.self_cpu_time_total + sum(child.cpu_time_total for child in self.cpu_children)

    def all(self) -> list[Event]:
        return [self, *(event for child in self.cpu_children for event in child.all())]


def test_parts_are_separated() -> None:
    step = Event(
        STEP,
        7.0,
        [
            Event("aten::linear", 1.0, [Event("aten::addmm", 10.0)]),
            Event("aten::index", 2.0, [Event("aten::nonzero", 3.0)]),
            Event("autograd::engine::evaluate_function: AddmmBackward0", 1.0, [Event("aten::mm", 20.0)]),
            Event("Optimizer.step#SGD.step", 1.0, [Event("aten::_foreach_add_", 4.0)]),
        ],
    )
    tally = Tally(step.all())
    assert dict(tally.host) == {
        "forward": 13.0, "host sync": 3.0, "backward": 21.0, "optimiser": 5.0, "Python and rest": 7.0,
    }  # fmt: skip
    assert tally.operators["backward", "aten::mm"] == 20.0


def test_a_backward_in_another_thread_is_not_idle_time() -> None:
    """As on a GPU: the step's thread waits while the engine's works."""
    step = Event(STEP, 30.0, [Event("aten::linear", 10.0, self_device_time_total=6.0)])
    backward = Event("autograd::engine::evaluate_function: AddmmBackward0", 25.0, thread=2, self_device_time_total=9.0)
    tally = Tally([*step.all(), backward])
    assert dict(tally.host) == {"forward": 10.0, "backward": 25.0, "Python and rest": 5.0}
    assert dict(tally.device) == {"forward": 6.0, "backward": 9.0}


@pytest.mark.parametrize("name", ["aten::item", "cudaStreamSynchronize", "aten::is_nonzero"])
def test_waiting_for_a_value_is_host_sync(name: str) -> None:
    assert part_of(name) == "host sync"


def test_the_verb_shows_a_table_and_writes_a_trace(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    code, out, err = cli("profile", "--method", "sar", "--batches", "1", "--batch-size", "8", "--trace", trace)
    assert (code, err) == (0, "")
    for part in ("forward", "backward", "optimiser", "host sync", "loading"):
        assert part in out
    names = {event.get("name", "") for event in json.loads(trace.read_text())["traceEvents"]}
    assert STEP in names
    assert any(name.startswith("Optimizer.step") for name in names)


def test_bad_input_is_one_line(cli: Cli, tmp_path: Path) -> None:
    for words in (["--method", "sarr"], ["--method", "sar", "--trace", str(tmp_path)]):
        code, _, err = cli("profile", *words)
        assert (code, err.count("\n")) == (2, 1)
