"""COME: the entropy of an opinion, and the three methods that lower it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from tta_bench_methods._opinion import opinion_entropy

from tests.support.small import small_resnet, small_vit, stream
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter

NAMES = ["tent-come", "eata-come", "sar-come"]


def literal(logits: Tensor, evidence: int) -> Tensor:
    """The steps of the released loss, one by one."""
    length = logits.norm(dim=1, keepdim=True)
    weights = (logits / length * length.detach()).exp()
    total = weights.sum(1, keepdim=True) + evidence
    shares = torch.cat([weights / total, evidence / total], 1) + 1e-7
    return -(shares * shares.log()).sum(1)


def random_logits(classes: int) -> Tensor:
    return (3 * torch.randn(6, classes, generator=torch.Generator().manual_seed(0))).requires_grad_()


@pytest.mark.parametrize(("classes", "evidence"), [(10, 10), (10, 1000), (1000, 1000)])
def test_values_and_gradients_are_those_of_the_released_loss(classes: int, evidence: int) -> None:
    logits = random_logits(classes)
    mine, theirs = opinion_entropy(logits, evidence), literal(logits, evidence)
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)
    (one,), (other,) = (torch.autograd.grad(values.sum(), logits) for values in (mine, theirs))
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_the_gradient_does_not_lengthen_the_logits() -> None:
    logits = random_logits(10)
    (gradient,) = torch.autograd.grad(opinion_entropy(logits, 10).sum(), logits)
    assert gradient.abs().max() > 0.01
    assert (gradient * logits).sum(1).abs().max() < 1e-6


@pytest.mark.parametrize("value", [0.0, 89.0, 500.0, -500.0, 1e30])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_logits_for_which_the_released_loss_is_nan(value: float, kind: torch.dtype) -> None:
    logits = torch.zeros(2, 10, dtype=kind)
    logits[:, 3] = value
    logits.requires_grad_()
    entropies = opinion_entropy(logits, 10)
    assert entropies.isfinite().all()
    assert (entropies >= -1e-5).all()
    assert torch.autograd.grad(entropies.sum(), logits)[0].isfinite().all()


def test_no_evidence_is_sure_of_not_knowing() -> None:
    assert float(opinion_entropy(torch.full((1, 10), -5.0), 10)) == pytest.approx(0.06, abs=0.01)
    assert float(opinion_entropy(torch.full((1, 10), -5.0), 1000)) == pytest.approx(0.0009, abs=1e-4)
    assert float(opinion_entropy(torch.zeros(1, 10), 1)) == pytest.approx(math.log(11), abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_not_knowing_weighs_as_much_as_all_classes(name: str) -> None:
    default: Any = build_method(name, small_vit(), num_classes=10)
    assert default.opinion_classes == 10
    assert default.lr == build_method(name.removesuffix("-come"), small_vit(), num_classes=10).lr  # type: ignore[attr-defined]


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("name", NAMES)
def test_a_classifier_of_zeros_keeps_everything_finite(name: str, norm: str) -> None:
    """All logits are zero; the released code makes every weight NaN."""
    model = small_resnet(norm)
    model.get_classifier().weight.data.zero_()
    model.get_classifier().bias.data.zero_()
    method = build_method(name, model, num_classes=10, batch_size=8)
    if method.needs_source:
        method.prepare(stream(count=2, seed=7, pixels=32))
    for batch in stream(count=2, pixels=32):
        assert method.adapt(batch).isfinite().all()
    assert all(tensor.isfinite().all() for tensor in method.adapted_parameters().values())


@pytest.mark.parametrize(
    ("name", "none", "some", "all_"),
    [
        ("tent-come", (8, 8), (8, 8), (8, 8)),
        ("eata-come", (8, 0), (8 + 2, 2), (8, 8)),
        ("sar-come", (8, 0), (8 + 2 + 2, 2 + 2), (8 + 8, 8 + 8)),
    ],
)
def test_only_what_the_loss_uses_is_computed(
    name: str, none: tuple[int, int], some: tuple[int, int], all_: tuple[int, int]
) -> None:
    batch, settings = stream(count=1)[0], {"lr": 0.0}
    if name == "eata-come":
        settings |= {"fisher_weight": 0.0, "redundancy_threshold": 2.0}
    for reliable, expected in ((0, none), (2, some), (8, all_)):
        method: Any = build_method(name, small_vit(), num_classes=10, params=settings)
        entropies = [-1.0, *method.entropies(method.predict(batch)).sort().values.tolist(), 9.0]
        method.entropy_threshold = sum(entropies[reliable : reliable + 2]) / 2
        for _ in range(5):  # until the method has found out which share to expect
            method.adapt(batch)
        with CostCounter(method.model) as counter:
            method.adapt(batch)
        assert (counter.sample_forwards, counter.sample_backwards) == expected, reliable


@pytest.mark.parametrize("name", NAMES)
def test_no_evidence_for_not_knowing_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="opinion_classes is 0, expected 1 or more, or none for the number of classes"):
        build_method(name, small_vit(), num_classes=10, params={"opinion_classes": 0})
