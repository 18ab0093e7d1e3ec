"""What a GPU's first use does to a process, and what is watched on it. No GPU is needed: its calls are recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tta_bench.measure import environment
from tta_bench.measure.process import open_files, process_state, restored


@pytest.mark.parametrize(("name", "index"), [("cuda", 0), ("cuda:1", 1)])
def test_the_asked_gpu_is_current_before_anything_else(monkeypatch: pytest.MonkeyPatch, name: str, index: int) -> None:
    calls: list[tuple[str, Any]] = []
    monkeypatch.setattr(torch.cuda, "init", lambda: calls.append(("init", None)))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(("set_device", device)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: calls.append(("synchronize", device)))
    environment.start(torch.device(name))
    assert calls == [("init", None), ("set_device", index), ("synchronize", torch.device(name))]
    environment.start(torch.device("cpu"))
    assert len(calls) == 3


def test_a_waiting_process_holds_no_unused_gpu_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty_cache"))
    environment.release(torch.device("cpu"))
    assert calls == []
    environment.release(torch.device("cuda"))
    assert calls == ["empty_cache"]


def test_files_of_drivers_are_no_methods() -> None:
    with Path("/dev/zero").open("rb"), Path("mine").open("w") as mine:
        found = open_files()
        assert str(Path(mine.name).resolve()) in found
        assert not [path for path in found if path.startswith("/dev/")]


def test_draws_from_a_gpus_generator_are_named_and_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [torch.zeros(4, dtype=torch.uint8), torch.ones(4, dtype=torch.uint8)]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: [state.clone() for state in states])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", lambda new: states.__setitem__(slice(None), new))
    before = process_state()
    with restored() as changed:
        states[1] = states[1] + 1  # a draw
    assert changed == ["the GPUs' random generators"]
    assert process_state() == before


def test_asking_for_gpu_generators_does_not_start_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: pytest.fail("started a GPU"))
    assert process_state()["the GPUs' random generators"] == ()
