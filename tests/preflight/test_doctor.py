"""The doctor: what it compares on a simulated GPU, and that it notices what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch

from tests.support.cli import Cli
from tta_bench.measure import environment
from tta_bench.measure.process import restored
from tta_bench.preflight import doctor
from tta_bench.records.spec import CellSpec
from tta_bench.registry import installed
from tta_bench.simulated import SimulatedGpus
from tta_bench.testing import tiny_resnet


@pytest.fixture
def gpu() -> Iterator[torch.device]:
    with restored(), SimulatedGpus():
        yield doctor.start("auto")


def first(device: torch.device, count: int = 4) -> dict[str, doctor.Comparison]:
    return {result.what: result for result in islice(doctor.Doctor(device, tiny_resnet).results(), count)}


def test_precision_copies_and_clocks_are_compared(gpu: torch.device) -> None:
    found = first(gpu)
    assert list(found) == ["TF32 off", "TF32 on", "copies ahead", "timer"]
    assert [result.ok for result in found.values()] == [True, True, True, None]  # noise of a CPU is not judged
    assert "NO GPU HERE" in doctor.about(gpu)[-1]


def test_tf32_that_stays_on_is_noticed(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    real = environment.start
    monkeypatch.setattr(environment, "start", lambda device, tf32=False: real(device, tf32=True))
    assert not first(gpu, 1)["TF32 off"].ok


def test_a_method_that_differs_on_a_gpu_is_noticed(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    def logits(spec: CellSpec, device: str, network: object = None) -> torch.Tensor:
        return torch.eye(16, 10).roll(int(device != "cpu"), 1)

    monkeypatch.setattr(doctor, "_logits", logits)
    monkeypatch.setattr(type(installed()), "names", lambda self: ["source"])
    found = list(doctor.Doctor(gpu, tiny_resnet).results())[-1]
    assert (found.ok, found.text.partition(",")[0]) == (False, "10 of 16 predictions differ")


def test_methods_are_tried_on_a_network_that_they_take(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(installed()), "names", lambda self: ["bn-test", "dept-g"])
    tried, refused = list(doctor.Doctor(gpu, tiny_resnet).results())[-2:]
    assert (tried.ok, "on a small ResNet with BatchNorm" in tried.text) == (True, True)
    assert (refused.ok, refused.text.partition(" prompts")[0]) == (None, "not tried: dept-g needs")


def test_a_cpu_is_no_patient(cli: Cli) -> None:
    status, _, err = cli("doctor", "--device", "cpu")
    assert (status, err.count("\n")) == (2, 1)
    assert "doctor examines GPUs that CUDA can use (got --device cpu)" in err


@pytest.mark.slow
def test_every_method_is_the_same_on_the_simulated_gpu(gpu: torch.device) -> None:
    found: list[Any] = list(doctor.Doctor(gpu, tiny_resnet).results())
    assert [result for result in found if result.ok is False] == []
    assert len(found) == 4 + len(installed().names())
