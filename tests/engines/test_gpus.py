"""Which GPU `--gpus N` is, in containers, in WSL2 and beside an existing choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tta_bench import gpus
from tta_bench.errors import UserError
from tta_bench.runs.options import RunOptions


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gpus, "_DEVICES", tmp_path)
    return tmp_path


def test_device_files_are_counted_not_read(devices: Path) -> None:
    for name in ("nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm"):  # a container with the last two of four GPUs
        (devices / name).touch()
    gpus.refuse_missing([0, 1])
    assert gpus.only(1) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}
    with pytest.raises(UserError, match=r"--gpus 0,2: this machine has no GPU 2 \(GPUs: 0, 1\)"):
        gpus.refuse_missing([0, 2])


def test_a_machine_without_gpus_says_so(devices: Path) -> None:
    with pytest.raises(UserError, match=r"--gpus 0: this machine has no GPU 0 \(GPUs: none\)"):
        gpus.refuse_missing([0])


def test_wsl_leaves_it_to_cuda(devices: Path) -> None:
    (devices / "dxg").touch()
    gpus.refuse_missing([7])
    assert gpus.only(7)["CUDA_VISIBLE_DEVICES"] == "7"
    assert gpus.visible() is None


def test_an_existing_choice_is_respected(devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937, 5")
    assert [gpus.only(i)["CUDA_VISIBLE_DEVICES"] for i in (0, 1)] == ["GPU-8932f937", "5"]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert gpus.only(0)["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    with pytest.raises(UserError, match="--gpus 2: CUDA_VISIBLE_DEVICES=GPU-8932f937, 5 shows no GPU 2"):
        gpus.refuse_missing([2])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpus.visible() == []


def test_cells_on_gpus_never_run_on_a_cpu() -> None:
    assert RunOptions(gpus=(0,)).device == "cuda"
    with pytest.raises(UserError, match=r"--gpus chooses the device of each worker: omit --device \(got cpu\)"):
        RunOptions(gpus=(0,), device="cpu")


def test_records_of_a_simulated_gpu_are_found_by_the_name_that_a_command_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(gpus.SIMULATED, raising=False)
    assert [gpus.recorded(name) for name in ("cuda:1", "cpu")] == ["cuda", "cpu"]
    monkeypatch.setenv(gpus.SIMULATED, "2")
    assert [gpus.recorded(name) for name in ("cuda:1", "cpu")] == ["simulated", "cpu"]
