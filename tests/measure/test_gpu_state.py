"""What a GPU's first use does to a process, how it computes, and what is watched on it: on simulated GPUs."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tta_bench.isolation import child
from tta_bench.measure import environment, memory
from tta_bench.measure.process import open_files, process_state, restored
from tta_bench.simulated import SimulatedGpus


@pytest.fixture
def gpus() -> Iterator[SimulatedGpus]:
    with restored(), SimulatedGpus(2) as gpus:
        yield gpus


@pytest.mark.parametrize(("name", "index"), [("cuda", 0), ("cuda:1", 1)])
def test_the_asked_gpu_is_current_before_anything_else(gpus: SimulatedGpus, name: str, index: int) -> None:
    device = torch.device(name)
    environment.start(torch.device("cpu"))
    assert not torch.cuda.is_initialized()
    with pytest.raises(RuntimeError, match="did you call init"):
        torch.cuda.reset_peak_memory_stats(torch.device("cuda:1"))
    environment.start(device)
    memory.start(device)
    weights = torch.ones(1000).cuda()
    assert weights.device.index == index
    assert memory.peak(device) == {"bytes": 4096, "measure": "allocated on the GPU"}


def test_starting_a_gpu_leaves_nothing_to_blame_a_method_for(gpus: SimulatedGpus) -> None:
    environment.start(torch.device("cuda"))
    files = open_files()
    with restored() as changed:
        torch.zeros(1, device="cuda:1").cpu()
    assert changed == []
    assert open_files() == files


def test_without_a_start_the_driver_would_be_blamed_on_a_method(gpus: SimulatedGpus) -> None:
    with restored() as changed:
        torch.zeros(1, device="cuda").cpu()
    assert "environment variables" in changed


def test_a_waiting_process_holds_no_unused_gpu_memory(gpus: SimulatedGpus) -> None:
    weights = torch.zeros(1 << 20, device="cuda")
    del weights
    environment.release(torch.device("cpu"))
    assert torch.cuda.memory_reserved(0) == 1 << 22
    environment.release(torch.device("cuda"))
    assert torch.cuda.memory_reserved(0) == 0


def test_a_worker_returns_memory_when_its_cell_has_ended(gpus: SimulatedGpus) -> None:
    weights = torch.zeros(1 << 20, device="cuda")
    del weights
    setup = SimpleNamespace(device=torch.device("cuda"), batch_size=8)
    said: list[Any] = []
    connection: Any = SimpleNamespace(send_bytes=said.append, send=said.append)
    job: Any = SimpleNamespace(setup=pickle.dumps(setup), model="no such model")
    child._work(job, connection, 0)
    assert len(said) == 1  # why the cell failed
    assert torch.cuda.memory_reserved(0) == 0


def test_files_of_drivers_are_no_methods() -> None:
    with Path("/dev/zero").open("rb"), Path("mine").open("w") as mine:
        found = open_files()
        assert str(Path(mine.name).resolve()) in found
        assert not [path for path in found if path.startswith("/dev/")]


def test_draws_from_a_gpus_generator_are_named_and_undone(gpus: SimulatedGpus) -> None:
    environment.start(torch.device("cuda"))
    before = process_state()
    with restored() as changed:
        torch.rand(3, device="cuda:1")
    assert changed == ["the GPUs' random generators"]
    assert process_state() == before


def test_asking_for_gpu_generators_does_not_start_a_gpu(gpus: SimulatedGpus) -> None:
    assert process_state()["the GPUs' random generators"] == ()
    assert not torch.cuda.is_initialized()


def test_products_have_the_precision_of_float32_unless_asked(gpus: SimulatedGpus) -> None:
    image, weight = torch.rand(1, 3, 8, 8), torch.rand(4, 3, 3, 3)
    expected = torch.conv2d(image, weight)
    found = {}
    for tf32 in (False, True, False):
        environment.start(torch.device("cuda"), tf32=tf32)
        found[tf32] = torch.conv2d(image.to("cuda"), weight.to("cuda")).cpu()
        assert environment.describe(torch.device("cuda"))["gpu"]["tf32"] is tf32
    assert torch.equal(found[False], expected)
    assert not torch.equal(found[True], expected)
    torch.testing.assert_close(found[True], expected, rtol=2**-9, atol=0)


def test_deterministic_is_the_cells_and_not_the_next_ones(gpus: SimulatedGpus) -> None:
    device, square = torch.device("cuda"), torch.rand(4, 4, device="cuda")
    environment.start(device, deterministic=True)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert torch.backends.cudnn.deterministic
    assert environment.describe(device)["gpu"]["deterministic"] is True
    square @ square
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        square.cumsum(0)
    environment.start(device)
    square.cumsum(0)
    assert environment.describe(device)["gpu"]["deterministic"] is False


def test_a_record_says_what_may_change_its_bits(gpus: SimulatedGpus) -> None:
    environment.start(torch.device("cuda:1"))
    found = environment.describe(torch.device("cuda:1"))
    assert (found["device"], found["device_name"]) == ("simulated", "simulated GPU")
    assert set(found["gpu"]) == {"cuda", "cudnn", "driver", "capability", "tf32", "deterministic"}
    assert found["gpu"]["cuda"] == torch.version.cuda
    assert "gpu" not in environment.describe(torch.device("cpu"))


def test_a_failed_cell_says_nothing_of_switches_that_another_process_had(gpus: SimulatedGpus) -> None:
    found = environment.of_failure(torch.device("cuda:1"))
    assert set(found["gpu"]) == {"cuda", "cudnn", "driver", "capability"}
    assert "gpu" not in environment.of_failure(torch.device("cpu"))
