"""`train-source` and `calibrate` on simulated GPUs: what they write is what a CPU writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.support.cli import Cli
from tta_bench.data.images import ArrayImages
from tta_bench.datasets import digits
from tta_bench.measure.process import restored
from tta_bench.models import recipes, train
from tta_bench.runs import calibrate
from tta_bench.simulated import SimulatedGpus


@pytest.fixture(autouse=True)
def _switches_as_before() -> Iterator[None]:
    with restored():
        yield


@pytest.fixture
def _short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shallow network and few images."""
    note, whole = recipes.DIGITS_NOTE, {part: digits.clean(part) for part in ("train", "test")}
    few = {part: ArrayImages(x.read(range(50)), x.labels[:50], x.ids[:50]) for part, x in whole.items()}
    monkeypatch.setattr(recipes, "DIGITS_NOTE", replace(note, architecture={**note.architecture, "depth": 2}))
    monkeypatch.setattr(digits, "clean", few.__getitem__)


@pytest.mark.usefixtures("_short_training")
def test_a_training_that_was_interrupted_gives_the_cpus_weights(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("train-source", "digits", "--epochs", 2)
    assert cli(*words, "--device", "cpu", "--out", "cpu.safetensors")[0] == 0
    keep = train._keep

    def stopped(path: Path, state: dict[str, Any]) -> None:
        keep(path, state)
        raise KeyboardInterrupt

    with SimulatedGpus(2):
        here = (*words, "--device", "cuda:1", "--out", "gpu.safetensors")
        with monkeypatch.context() as patch:
            patch.setattr(train, "_keep", stopped)
            assert cli(*here)[0] == 130
        status, out, err = cli(*here)
        assert (status, err) == (0, ""), out
    on_cpu, on_gpu = load_file("cpu.safetensors"), load_file("gpu.safetensors")
    for name, weights in on_cpu.items():
        torch.testing.assert_close(on_gpu[name], weights, rtol=1e-5, atol=1e-6)


def test_a_calibration_measures_what_the_cpu_measures(
    cli: Cli, small_suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "CORRUPTIONS", ("contrast",))
    monkeypatch.setattr(calibrate, "HELD_OUT", ("gaussian_blur",))
    words = ("calibrate", "--suite", small_suite, "--images", 16)
    assert cli(*words, "--device", "cpu", "--out", "cpu")[0] == 0
    with SimulatedGpus(2):
        status, out, err = cli(*words, "--device", "cuda:1", "--out", "gpu")
        assert (status, err) == (0, ""), out
    (on_cpu,), (on_gpu,) = (list(Path(name).iterdir()) for name in ("cpu", "gpu"))
    assert on_gpu.read_text() == on_cpu.read_text()
