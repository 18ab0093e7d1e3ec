"""Facts about the methods that hold for any data: counts, identities and known defects."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import timm
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from tta_bench_methods._optim import Sam

from tests.support.reference import lifted_forward, pairwise_similarity
from tests.support.small import small_vit, stream
from tests.support.traces import golden_batches, golden_model
from tta_bench import Method, build_method


def on_meta(name: str) -> VisionTransformer:
    with torch.device("meta"):
        return timm.create_model(name)


def built(name: str, **params: Any) -> Method:
    method = build_method(name, small_vit(), num_classes=10, batch_size=8, params=params)
    if method.needs_source:
        method.prepare(stream(count=2, seed=7))
    return method


def scalars(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors.values())


def states_equal(one: Method, other: Method) -> bool:
    theirs = other.adapted_parameters()
    return all(torch.equal(tensor, theirs[name]) for name, tensor in one.adapted_parameters().items())


@pytest.mark.parametrize(
    ("name", "model", "norms", "count"),
    [
        ("tent", "vit_base_patch16_224", 25, 38_400),
        ("eata", "vit_base_patch16_224", 25, 38_400),
        ("sar", "vit_base_patch16_224", 18, 27_648),
        ("sar", "vit_large_patch16_224", 36, 73_728),
    ],
)
def test_norms_that_adapt(name: str, model: str, norms: int, count: int) -> None:
    adapted = build_method(name, on_meta(model), num_classes=1000).adapted_parameters()
    assert len(adapted) == 2 * norms
    assert scalars(adapted) == count


def test_what_dpal_adapts_on_vit_base() -> None:
    method = build_method("dpal-official", on_meta("vit_base_patch16_224"), num_classes=1000)
    adapted = method.adapted_parameters()
    predictors = {name: t for name, t in adapted.items() if name.startswith("predictors.")}
    assert adapted["shift_tokens"].shape == (12, 1, 768)
    assert len(predictors) == 48
    assert scalars(predictors) == 14_174_208
    assert len(adapted) - len(predictors) == 37  # 36 of norms, and the tokens of all blocks in one
    assert scalars(adapted) - scalars(predictors) == 36_864


def test_no_gradient_for_what_does_not_adapt() -> None:
    model = small_vit()
    method = build_method("sar", model, num_classes=10)
    assert {n for n, p in model.named_parameters() if p.requires_grad} == set(method.adapted_parameters())


@pytest.mark.parametrize(
    ("name", "batch_size", "lr"),
    [("tent", 64, 1e-3), ("eata", 16, 2.5e-4), ("sar", 64, 1e-3), ("sar", 1, 3.125e-5), ("tent", 1, 1.5625e-5),
     ("dpal", 64, 1e-2), ("dpal", 1, 1e-2)],
)  # fmt: skip
def test_published_rates_of_transformers(name: str, batch_size: int, lr: float) -> None:
    method: Any = build_method(name, small_vit(), num_classes=10, batch_size=batch_size)
    assert method.lr == pytest.approx(lr, rel=1e-9)


def test_frozen_blocks_is_a_setting_found_inside_wrappers() -> None:
    model = nn.Sequential(nn.Identity(), small_vit())
    adapted = build_method("sar", model, num_classes=10, params={"frozen_blocks": [0, 11]}).adapted_parameters()
    blocks = {int(name.split(".")[2]) for name in adapted}
    assert blocks == set(range(1, 11))
    assert all(name.startswith("1.blocks.") for name in adapted)


@pytest.mark.parametrize(
    ("name", "point"), [("sar", "pre-update"), ("dpal", "pre-update"), ("dpal-official", "perturbed")]
)
def test_score_point(name: str, point: str) -> None:
    assert built(name).score_point == point
    assert built(name, score="second").score_point == "perturbed"


def test_first_pass_logits_are_those_of_the_weights_before_the_update() -> None:
    model = small_vit()
    method = build_method("sar", model, num_classes=10, params={"lr": 0.01})
    other = built("sar", lr=0.01, score="second")
    for batch in stream():
        with torch.no_grad():
            expected = copy.deepcopy(model)(batch)
        torch.testing.assert_close(method.adapt(batch), expected)
        assert not torch.allclose(other.adapt(batch), expected, atol=1e-4)


def test_dpals_first_pass_logits_are_those_of_the_weights_before_the_update() -> None:
    model = small_vit()
    method = build_method("dpal", model, num_classes=10, params={"shift_tokens": 2})
    for batch in stream(count=3):
        state = method.adapted_state()
        with torch.no_grad():
            expected, _ = lifted_forward(model, batch, state["shift_tokens"], state)
        torch.testing.assert_close(method.adapt(batch), expected, atol=1e-5, rtol=1e-4)


def test_predictors_that_start_at_zero_are_dead() -> None:
    model = small_vit()
    method = build_method("dpal-official", model, num_classes=10)
    for batch in stream():
        method.adapt(batch)
    state = method.adapted_state()
    for name, tensor in state.items():
        if name.startswith("predictors."):
            assert bool(tensor.any()) == name.endswith("fc2.bias"), name
    with torch.no_grad():
        _, shifts = lifted_forward(model, stream(seed=5)[0], state["shift_tokens"], state)
    assert all(torch.equal(shift, shift[:1].expand_as(shift)) for shift in shifts)


def test_similarity_loss_falls_from_a_random_start() -> None:
    """With a head that says nothing the entropy is constant, and what moves is moved by similarity alone."""
    model, batches = golden_model(head_scale=0.0), golden_batches()[:5]
    method = build_method("dpal", model, num_classes=10, params={"entropy_threshold": 5.0, "predictor_init": "default"})
    losses = []
    for batch in batches * 2:
        losses.append(similarity_loss(model, method, torch.cat(batches)))
        before = method.adapted_state()
        method.adapt(batch)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] - 1e-5
    for name, value in method.adapted_state().items():
        assert torch.equal(value, before[name]) != name.startswith("predictors."), name


def test_similarity_loss_ends_lower_than_without_it() -> None:
    ends = {}
    for on in (True, False):
        model, batches = golden_model(), golden_batches()[:5]
        params = {"similarity": on, "lr": 0.05, "predictor_init": "small"}
        method = build_method("dpal", model, num_classes=10, params=params)
        for batch in batches:
            method.adapt(batch)
        ends[on] = similarity_loss(model, method, torch.cat(batches))
    assert 1 + ends[True] < 0.5 * (1 + ends[False])


def similarity_loss(model: nn.Module, method: Method, images: Tensor) -> float:
    state = method.adapted_state()
    with torch.no_grad():
        _, shifts = lifted_forward(model, images, state["shift_tokens"], state)
    return -float(pairwise_similarity(shifts))


def test_token_start_and_its_seed() -> None:
    tokens = built("dpal", shift_tokens=4).adapted_state()["shift_tokens"]
    bound = math.sqrt(6 / (3 * 8 * 8 + 24))
    assert 0.95 * bound < tokens.abs().max() <= bound
    assert torch.equal(tokens, built("dpal", shift_tokens=4, seed=0).adapted_state()["shift_tokens"])
    assert not torch.equal(tokens, built("dpal", shift_tokens=4, seed=1).adapted_state()["shift_tokens"])


@pytest.mark.parametrize("tokens", [1, 2, 4, 8])
def test_sequence_is_longer_by_the_tokens_in_every_block(tokens: int) -> None:
    model, lengths = small_vit(), []
    method = build_method("dpal", model, num_classes=10, params={"shift_tokens": tokens})
    for block in model.blocks:
        block.attn.register_forward_hook(lambda module, args, out: lengths.append(args[0].shape[1]))
    method.adapt(stream(count=1)[0])
    assert set(lengths) == {5 + tokens}


def test_sam_steps_from_where_it_was_by_the_gradient_up_the_slope() -> None:
    w = torch.tensor([3.0, 4.0], requires_grad=True)
    sam = Sam([w], lr=0.1, momentum=0.9, rho=0.5)
    start, gradient = w.detach().clone(), w.detach().clone()  # of half the squared norm
    with sam.perturbed([gradient]):
        torch.testing.assert_close(w.detach(), start * 1.1)
        up_there = w.detach().clone()
    assert torch.equal(w.detach(), start)
    sam.step([up_there])
    torch.testing.assert_close(w.detach(), start - 0.1 * up_there)
    second = w.detach().clone()
    sam.step([torch.zeros(2)])
    torch.testing.assert_close(w.detach(), second - 0.1 * 0.9 * up_there)


@pytest.mark.parametrize("name", ["sar", "dpal", "dpal-official"])
def test_momentum_moves_on_when_nothing_is_reliable(name: str) -> None:
    method: Any = built(name, lr=0.01, entropy_threshold=5.0)
    one, two = stream(count=2)
    states = [method.adapted_state()]
    method.adapt(one)
    states.append(method.adapted_state())
    method.entropy_threshold = 0.0
    method.adapt(two)
    states.append(method.adapted_state())
    for key in states[0]:
        torch.testing.assert_close(
            states[2][key] - states[1][key], 0.9 * (states[1][key] - states[0][key]), atol=1e-6, rtol=1e-3
        )


@pytest.mark.parametrize("name", ["eta", "eata"])
def test_eata_does_not_move_when_nothing_is_kept(name: str) -> None:
    method: Any = built(name, lr=0.01, entropy_threshold=5.0)
    method.adapt(stream()[0])
    before = method.adapted_state()
    method.entropy_threshold = 0.0
    method.adapt(stream()[1])
    assert all(torch.equal(value, before[key]) for key, value in method.adapted_state().items())


@pytest.mark.parametrize("name", ["sar", "dpal"])
def test_fixed_recovery_resets_everything_and_the_released_one_does_not(name: str) -> None:
    one, two = stream(count=2)
    fresh = built(name, reset_threshold=0.0, entropy_threshold=5.0)
    fresh.adapt(two)
    after: dict[str, Any] = {}
    for recovery in ("fixed", "released"):
        method: Any = built(name, reset_threshold=100.0, entropy_threshold=5.0, recovery=recovery)
        method.adapt(one)
        assert method.resets == 1
        method._watch.threshold = 0.0
        method.adapt(two)
        after[recovery] = method
    assert states_equal(after["fixed"], fresh)
    assert not states_equal(after["released"], fresh)


def test_predictors_under_sam_step_by_the_gradient_up_the_slope() -> None:
    """Of the whole loss: at a vanishing distance up the slope that is the plain step."""
    batch = stream()[0]
    start = {"rho": 0.0, "predictor_init": "default"}  # at zeros the slope is too steep for a vanishing distance
    plain, near, far = (built("dpal", predictor_rho=rho, **start) for rho in (0.0, 1e-6, 0.5))
    states = []
    for method in (plain, near, far):
        method.adapt(batch)
        states.append({k: v for k, v in method.adapted_state().items() if k.startswith("predictors.")})
    for key, value in states[0].items():
        torch.testing.assert_close(states[1][key], value, atol=1e-6, rtol=1e-4)
    assert any(not torch.allclose(states[2][key], value, atol=1e-6) for key, value in states[0].items())


def test_tent_repeats_its_step() -> None:
    once, twice = built("tent", lr=0.01), built("tent", lr=0.01, steps=2)
    batch = stream()[0]
    once.adapt(batch)
    torch.testing.assert_close(twice.adapt(batch), once.adapt(batch))


def test_eata_is_held_to_the_source_weights() -> None:
    def drift(name: str, **params: Any) -> float:
        method = built(name, lr=0.001, entropy_threshold=5.0, redundancy_threshold=2.0, **params)
        start = method.adapted_state()
        for batch in stream(count=6):
            method.adapt(batch)
        return math.sqrt(sum(float((v - start[k]).square().sum()) for k, v in method.adapted_state().items()))

    assert drift("eata", fisher_weight=0.0) == drift("eta")
    assert drift("eata", fisher_weight=2000.0) < 0.9 * drift("eta")
