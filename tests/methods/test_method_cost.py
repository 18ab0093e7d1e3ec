"""Cheaper, with the same result: selective passes against full ones, and exact counts of what is computed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from tta_bench_methods import _passes
from tta_bench_methods._lifting import mean_similarity

from tests.support.reference import pairwise_similarity
from tests.support.small import small_vit, stream
from tta_bench import Method, build_method
from tta_bench.measure.cost import CostCounter

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("eta", {"redundancy_threshold": 0.8}),
    ("eata", {"redundancy_threshold": 0.8}),
    ("sar", {}),
    ("sar", {"score": "second"}),
    ("eata-come", {"redundancy_threshold": 0.8}),
    ("sar-come", {}),
    ("dpal", {}),
    ("dpal", {"similarity": False}),
    ("dpal", {"predictor_rho": 0.1, "score": "second"}),
    ("dpal-official", {}),
]


def run(name: str, params: dict[str, Any]) -> tuple[list[Tensor], dict[str, Tensor]]:
    method = build_method(name, small_vit(), num_classes=10, batch_size=8, params={"lr": 0.005, **params})
    if method.needs_source:
        method.prepare(stream(count=2, seed=7))
    return [method.adapt(batch) for batch in stream(count=5, last=3)], method.adapted_state()


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_every_way_gives_the_same_result(name: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for break_even, full in ((2.0, False), (-1.0, False), (-1.0, True)):
        monkeypatch.setattr(_passes, "BREAK_EVEN", break_even)
        monkeypatch.setattr(_passes, "samples_interact", lambda model, full=full: full)
        runs.append(run(name, params))
    for logits, state in runs[:2]:
        for one, other in zip(logits, runs[2][0], strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
        for key, value in runs[2][1].items():
            torch.testing.assert_close(state[key], value, atol=1e-5, rtol=1e-4, msg=key)


def counts(method: Method, batch: Tensor) -> tuple[int, int]:
    with CostCounter(method.model) as counter:
        method.adapt(batch)
    return counter.sample_forwards, counter.sample_backwards


@pytest.mark.parametrize(
    ("name", "params", "none", "some", "all_"),
    [
        ("source", {}, (8, 0), (8, 0), (8, 0)),
        ("tent", {}, (8, 8), (8, 8), (8, 8)),
        ("eta", {"redundancy_threshold": 2.0}, (8, 0), (8 + 2, 2), (8, 8)),
        ("sar", {}, (8, 0), (8 + 2 + 2, 2 + 2), (8 + 8, 8 + 8)),
        ("sar", {"score": "second"}, (8, 0), (8 + 2 + 8, 2 + 2), (8 + 8, 8 + 8)),
        ("dpal", {}, (8, 0), (8 + 2, 8 + 2), (8 + 8, 8 + 8)),
        ("dpal", {"similarity": False}, (8, 0), (8 + 2 + 2, 2 + 2), (8 + 8, 8 + 8)),
        ("dpal-official", {}, (8 + 8, 0), (8 + 8, 8 + 2), (8 + 8, 8 + 8)),
    ],
)
def test_only_what_a_loss_uses_is_computed(
    name: str,
    params: dict[str, Any],
    none: tuple[int, int],
    some: tuple[int, int],
    all_: tuple[int, int],
) -> None:
    batch = stream(count=1)[0]
    for reliable, expected in ((0, none), (2, some), (8, all_)):
        frozen = {} if name == "source" else {"lr": 0.0}
        if name not in ("source", "tent", "eta"):
            frozen["rho"] = 0.0
        method: Any = build_method(name, small_vit(), num_classes=10, params={**frozen, **params})
        method.entropy_threshold = 0.0
        log_p = method.adapt(batch).log_softmax(1)
        entropies = [-1.0, *(-(log_p.exp() * log_p).sum(1)).sort().values.tolist(), 9.0]
        method.entropy_threshold = sum(entropies[reliable : reliable + 2]) / 2
        for _ in range(5):  # until the method has found out which share to expect
            method.adapt(batch)
        assert counts(method, batch) == expected, reliable


@pytest.mark.parametrize("zeros", [(), (2,), (0, 1, 2, 3, 4)])
def test_similarity_equals_the_mean_over_all_pairs(zeros: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    shifts = [torch.randn(5, 7, generator=generator) for _ in range(3)]
    for shift in shifts:
        shift[list(zeros)] = 0.0
        shift.requires_grad_()
    quick, slow = mean_similarity(shifts), pairwise_similarity(shifts)
    torch.testing.assert_close(quick, slow)
    for one, other in zip(torch.autograd.grad(quick, shifts), torch.autograd.grad(slow, shifts), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)
        assert one.isfinite().all()
        assert len(zeros) < 5 or not one.any()
