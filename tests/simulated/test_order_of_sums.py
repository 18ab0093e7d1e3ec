"""Sums in any order, as on a GPU without `--deterministic`: how far apart two runs are, and what `verify` says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.simulated.test_commands import QUICK, tta
from tests.support.cli import SMALL
from tests.support.needed import needed
from tests.support.small import small_resnet, small_vit, stream
from tta_bench import build_method
from tta_bench.measure import environment
from tta_bench.measure.process import restored
from tta_bench.simulated import SimulatedGpus
from tta_bench.verify import rounding


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda").requires_grad_()


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def batch_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, weight, training=True)


CALLS: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "product": (torch.matmul, [(9, 300), (300, 7)]),
    "linear": (F.linear, [(9, 300), (7, 300), (7,)]),
    "products": (torch.bmm, [(2, 9, 300), (2, 300, 7)]),
    "convolution": (F.conv2d, [(8, 32, 9, 9), (4, 32, 3, 3), (4,)]),
    "BatchNorm": (batch_norm, [(16, 6, 5, 5), (6,)]),
    "LayerNorm": (lambda x, w: F.layer_norm(x, (20,), w), [(32, 7, 20), (20,)]),
    "attention": (attention, [(2, 2, 40, 8)] * 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_another_order_changes_bits_and_nothing_else(name: str) -> None:
    call, shapes = CALLS[name]
    found = []
    for unordered in (False, True, True):
        with restored(), SimulatedGpus(is_unordered=unordered):
            torch.manual_seed(0)
            torch.cuda.manual_seed(0)
            environment.started("cuda")
            given = [normal(*shape) for shape in shapes]
            out = call(*given)
            gradients = torch.autograd.grad(out.square().sum(), given)
            found.append(torch.cat([x.detach().cpu().flatten() for x in (out, *gradients)]))
    assert (found[1] - found[0]).abs().max() < 1e-5 * found[0].abs().max()
    assert not torch.equal(found[1], found[2])


@pytest.mark.parametrize("terms", [64, 1024, 16384])
def test_two_orders_of_a_sum_are_as_near_as_derived(terms: int) -> None:
    """Step 1 of `rounding`, for the plainest sum: one term after the other."""
    draw = np.random.default_rng(0)
    values = draw.standard_normal((400, terms)).astype(np.float32)
    sums = [np.cumsum(draw.permuted(values, axis=1), axis=1, dtype=np.float32)[:, -1].astype(float) for _ in "ab"]
    apart, size = (np.sqrt(np.mean(x**2)) for x in (sums[0] - sums[1], sums[0]))
    assert 0.1 < apart / (size * np.sqrt(terms) * rounding.UNIT) < 1


def probabilities(name: str, batches: list[Tensor], pixels: int) -> Tensor:
    """Of one run with sums in an order of its own."""
    with restored(), SimulatedGpus(is_unordered=True):
        environment.started("cuda")
        model = (small_resnet if name.startswith("bn-") else small_vit)().to("cuda")
        method = build_method(name, model, num_classes=10, batch_size=8, params=needed(name))
        if method.needs_source:
            method.prepare([x.to("cuda") for x in stream(count=2, seed=7, pixels=pixels)])
        return torch.cat([method.adapt(x.to("cuda")).softmax(1).cpu() for x in batches])


@pytest.mark.parametrize(
    "name", ["tent", *(pytest.param(name, marks=pytest.mark.slow) for name in ("eata", "bn-test", "roid", "cfa"))]
)
def test_methods_stay_within_the_derived_distance(name: str) -> None:
    """Every product, norm and attention sums in another order, also forward, which no GPU does."""
    pixels = 32 if name.startswith("bn-") else 16
    batches = stream(count=4, pixels=pixels)
    first, second = (probabilities(name, batches, pixels) for _ in "ab")
    apart = (first - second).abs().max().item()
    print(f"{name}: probabilities of two runs differ by up to {apart:.1e}")
    assert 0 < apart < rounding.after(4) / 100


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--deterministic",)], ids=" ".join)
def test_a_gpu_runs_its_cells_again(options: tuple[str, ...]) -> None:
    Path("small.yaml").write_text(SMALL)
    run = ("run", "--suite", "small.yaml", *QUICK, "--methods", "tent", "--device", "cuda:1", *options, "--out", "run")
    assert tta(*run, simulated="2:unordered").returncode == 0
    done = tta("verify", "run", "--rerun", 1, "--device", "cuda:1", simulated="2:unordered")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("the order of sums" in done.stdout, "bit for bit" in done.stdout) == (not options, bool(options))
