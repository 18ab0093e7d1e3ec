"""What the simulated GPUs do, call by call."""

from __future__ import annotations

import copy
import os
import pickle
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tta_bench.errors import UserError
from tta_bench.gpus import SIMULATED
from tta_bench.measure.process import restored
from tta_bench.simulated import NAME, SimulatedGpus, is_on, lists, switch_on_if_asked
from tta_bench.simulated.machine import DRIVER_FILE


@pytest.fixture
def gpus() -> Iterator[SimulatedGpus]:
    with SimulatedGpus(2) as gpus:
        yield gpus


def files() -> list[str]:
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the folder's own is closed by now
            found.append(str(one.readlink()))
    return found


def test_the_driver_starts_at_first_use_and_is_gone_afterwards() -> None:
    before = files().count(DRIVER_FILE)
    with SimulatedGpus() as gpus:
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 1
        assert not torch.cuda.is_initialized()
        assert files().count(DRIVER_FILE) == before
        torch.zeros(1, device="cuda")
        assert torch.cuda.is_initialized()
        assert files().count(DRIVER_FILE) == before + 1
        assert os.environ["CUDA_MODULE_LOADING"] == "LAZY"
        assert torch.cuda.get_device_name(0) == NAME
        assert gpus.operations["zeros"] == 1
    assert files().count(DRIVER_FILE) == before
    assert "CUDA_MODULE_LOADING" not in os.environ
    assert not is_on()


def test_the_peak_cannot_be_reset_before_the_first_use(gpus: SimulatedGpus) -> None:
    with pytest.raises(RuntimeError, match="Invalid device argument 1: did you call init"):
        torch.cuda.reset_peak_memory_stats(torch.device("cuda:1"))
    torch.cuda.init()
    torch.cuda.reset_peak_memory_stats(torch.device("cuda:1"))


def test_memory_moves(gpus: SimulatedGpus) -> None:
    weights = torch.zeros(1000, device="cuda:1")
    assert torch.cuda.memory_allocated(1) == 4096
    assert torch.cuda.memory_allocated(0) == 0
    views = weights.view(10, 100)[2:], weights.t(), weights.detach()
    assert torch.cuda.memory_allocated(1) == 4096
    twice = weights * 2
    assert torch.cuda.max_memory_allocated(1) == 8192
    del twice
    assert (torch.cuda.memory_allocated(1), torch.cuda.memory_reserved(1)) == (4096, 8192)
    torch.cuda.reset_peak_memory_stats(1)
    torch.cuda.empty_cache()
    assert (torch.cuda.max_memory_allocated(1), torch.cuda.memory_reserved(1)) == (4096, 4096)
    del weights, views
    assert torch.cuda.memory_allocated(1) == 0


def test_saved_activations_take_memory_until_the_backward_pass(gpus: SimulatedGpus) -> None:
    model, batch = nn.Sequential(nn.Linear(8, 512), nn.GELU(), nn.Linear(512, 1)).to("cuda"), torch.ones(64, 8)
    batch = batch.to("cuda")
    start = torch.cuda.memory_allocated()
    with torch.no_grad():
        model(batch)
    assert torch.cuda.memory_allocated() == start
    loss = model(batch).sum()
    assert torch.cuda.memory_allocated() > start + 64 * 512 * 4
    loss.backward()
    gradients = sum(4 * p.numel() for p in model.parameters())
    assert gradients <= torch.cuda.memory_allocated() - start < gradients + 64 * 512 * 4


def test_two_gpus_do_not_mix(gpus: SimulatedGpus) -> None:
    first, second = torch.ones(2, device="cuda"), torch.ones(2, device="cuda:1")
    assert (str(first.device), str(second.device)) == ("cuda:0", "cuda:1")
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1 .*test_device.py"):
        first + second
    assert (first.to("cuda:1") + second).tolist() == [2.0, 2.0]
    torch.cuda.set_device(1)
    assert torch.ones(2).cuda().device.index == 1
    with torch.cuda.device(0):
        assert torch.ones(2).cuda().device.index == 0
    assert torch.ones(2).to(0).device.index == 0
    with pytest.raises(RuntimeError, match=r"invalid device ordinal \(GPU 2 of 2"):
        torch.ones(2).to("cuda:2")


def test_visible_gpus_are_renumbered(monkeypatch: pytest.MonkeyPatch, gpus: SimulatedGpus) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_properties(0).uuid.endswith("-1")


def test_hidden_gpus_are_not_there(monkeypatch: pytest.MonkeyPatch, gpus: SimulatedGpus) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not torch.cuda.is_available()
    with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
        torch.zeros(1).cuda()


def test_each_gpu_has_its_own_generator(gpus: SimulatedGpus) -> None:
    before = torch.get_rng_state(), torch.cuda.get_rng_state(1)
    state = torch.cuda.get_rng_state(0)
    first = torch.rand(3, device="cuda")
    assert not torch.equal(torch.cuda.get_rng_state(0), state)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(torch.cuda.get_rng_state(1), before[1])
    torch.cuda.set_rng_state(state, 0)
    assert torch.equal(torch.rand(3, device="cuda").cpu(), first.cpu())
    own = torch.Generator("cuda:1").manual_seed(5)
    assert own.device == torch.device("cuda:1")
    draws = torch.rand(3, device="cuda:1", generator=own).cpu()
    assert torch.equal(draws, torch.rand(3, generator=torch.Generator().manual_seed(5)))


def test_a_stream_that_waits_may_read(gpus: SimulatedGpus) -> None:
    copying, working = torch.cuda.Stream(), torch.cuda.current_stream()
    host = torch.arange(4.0).pin_memory()
    with torch.cuda.stream(copying):
        batch, copied = host.to("cuda", non_blocking=True), copying.record_event()
        late = host.to("cuda", non_blocking=True)
    with pytest.raises(RuntimeError, match="another stream still computes"):
        batch + 1
    working.wait_event(copied)
    assert (batch + 1).sum().item() == 10
    with pytest.raises(RuntimeError, match="another stream still computes"):
        late + 1
    copying.synchronize()
    assert (late + 1).sum().item() == 10


def test_events_time_work(gpus: SimulatedGpus) -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="recorded before"):
        start.elapsed_time(end)
    start.record()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(torch.cuda.Event())


def test_waits_of_the_host_are_counted_by_line(gpus: SimulatedGpus) -> None:
    numbers = torch.arange(6.0).pin_memory().to("cuda", non_blocking=True)
    mask = numbers > 2
    numbers.masked_fill_(mask, 0)
    numbers[mask] = 1.0
    numbers[torch.tensor([1], pin_memory=True).to("cuda", non_blocking=True)] = 2.0
    assert not gpus.waits
    numbers[mask]
    numbers.sum().item()
    torch.tensor([1.0, 2.0], device="cuda")
    numbers.cpu()
    numbers[[0, 1]]
    torch.arange(6.0).to("cuda", non_blocking=True)  # not pinned
    found = ["mask as index", "_local_scalar_dense", "copy to the GPU", "copy to the CPU", "CPU index"]
    assert [what for what, _ in gpus.waits] == [*found, "copy to the GPU"]
    assert all(re.fullmatch(r"simulated/test_device.py:\d+", where) for _, where in gpus.waits)


def test_tensors_are_copied_and_saved(gpus: SimulatedGpus) -> None:
    weight = nn.Parameter(torch.arange(3.0, device="cuda:1"))
    other = copy.deepcopy(weight)
    with torch.no_grad():
        other += 1
    assert weight.tolist() == [0, 1, 2]
    assert (other.tolist(), other.requires_grad, isinstance(other, nn.Parameter)) == ([1, 2, 3], True, True)
    again = pickle.loads(pickle.dumps(weight.detach()))
    assert (again.tolist(), again.device) == ([0, 1, 2], torch.device("cuda:1"))
    assert f"{weight.sum():.1f} {weight.detach()}" == "3.0 tensor([0., 1., 2.], device='cuda:1')"
    with pytest.raises(TypeError, match="Use Tensor.cpu"):
        np.asarray(weight.detach())


def product(switch: str) -> tuple[bool, float]:
    """Whether a product and a convolution have the CPU's bits, with TF32 allowed for one kind, and how far off."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(8, 3, 8, 8, generator=generator), torch.randn(4, 3, 3, 3, generator=generator)
    on_cpu = torch.conv2d(a, b) if switch == "cudnn" else a[0, 0] @ a[0, 1]
    a, b = a.to("cuda"), b.to("cuda")
    on_gpu = (torch.conv2d(a, b) if switch == "cudnn" else a[0, 0] @ a[0, 1]).cpu()
    return torch.equal(on_cpu, on_gpu), float((on_cpu - on_gpu).abs().max())


def test_tf32_rounds_where_it_is_allowed(gpus: SimulatedGpus) -> None:
    with restored():
        torch.backends.cudnn.allow_tf32 = False
        assert product("cudnn")[0]
        assert product("matmul")[0]
        torch.backends.cudnn.allow_tf32 = True
        same, error = product("cudnn")
        assert not same
        assert 1e-5 < error < 1e-2
        assert product("matmul")[0]
        torch.backends.cuda.matmul.allow_tf32 = True
        assert not product("matmul")[0]


def test_autocast_follows_cudas_lists(gpus: SimulatedGpus) -> None:
    x = torch.randn(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
        half = nn.Linear(4, 4).to("cuda")(x)
        assert half.dtype == torch.bfloat16
        assert half.softmax(1).dtype == half.sum().dtype == nn.functional.layer_norm(half, (4,)).dtype == torch.float32
        assert (half + half).dtype == torch.bfloat16
        assert torch.addcmul(half, half, x).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            nn.functional.binary_cross_entropy(half.sigmoid(), half.sigmoid())
    assert (x @ x).dtype == torch.float32


def test_the_lists_of_autocast_have_all_that_torch_registers() -> None:
    known = lists.LOWER | lists.FULL | lists.WIDEST | lists.BANNED
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    registered = {
        name.removeprefix("aten::").partition(".")[0]
        for name in names
        if "\nAutocastCUDA: registered" in torch._C._dispatch_dump(name)
    }
    assert len(registered) > 80
    assert not registered - known


def test_deterministic_algorithms_are_refused_where_cuda_has_none(
    gpus: SimulatedGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.ones(3, 3, device="cuda")
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="needs CUBLAS_WORKSPACE_CONFIG"):
            x @ x
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        assert (x @ x).sum().item() == 27
        with pytest.raises(RuntimeError, match=r"cumsum_cuda does not have a deterministic implementation \(at sim"):
            x.cumsum(0)
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="cumsum_cuda does not"):
            x.cumsum(0)
    finally:
        torch.use_deterministic_algorithms(False)


def test_sums_in_any_order_differ_in_the_last_bit() -> None:
    with SimulatedGpus(is_unordered=True):
        x = torch.rand(100, device="cuda")
        first, second = (
            torch.zeros(100, device="cuda").scatter_add_(0, torch.arange(100, device="cuda"), x) for _ in "ab"
        )
        assert not torch.equal(first.cpu(), second.cpu())
        torch.testing.assert_close(first.cpu(), second.cpu(), rtol=1e-6, atol=0)


def test_only_a_variable_gives_a_process_simulated_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    switch_on_if_asked()
    assert not is_on()
    monkeypatch.setenv(SIMULATED, "many")
    with pytest.raises(UserError, match="TTA_BENCH_SIMULATED_GPUS=many: expected a number"):
        switch_on_if_asked()


def test_it_is_on_once() -> None:
    with SimulatedGpus(), pytest.raises(RuntimeError, match="on already"):
        SimulatedGpus().__enter__()
