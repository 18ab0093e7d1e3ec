"""FOA and its shift: the search itself, the tokens in the sequence, single images, and what is refused."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.support.small import small_resnet, small_vit, stream, tiny
from tests.support.traces import Trace, golden_batches, golden_model, in_order
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter


def built(name: str, model: nn.Module, **params: Any) -> Any:
    method = build_method(name, model, num_classes=10, batch_size=8, params=params)
    method.prepare(stream(count=3, seed=7))
    return method


def test_the_search_is_that_of_the_released_code() -> None:
    """Nothing given but the first prompts: the generator of our own makes the populations that were recorded."""
    trace = Trace("foa")
    start = {"prompts": trace.tensors("init/")["prompts"]}
    method: Any = build_method("foa", golden_model(), num_classes=10, batch_size=16, initial_state=start)
    method.load_prepared_state({key: trace.tensors("extra/source_")[key] for key in ("mean", "std")})
    expected, means = in_order(trace.tensors("logits/")), in_order(trace.tensors("extra/cma_mean/"))
    for i, batch in enumerate(golden_batches()):
        torch.testing.assert_close(method.adapt(batch), expected[i], atol=1e-4, rtol=0)
        torch.testing.assert_close(torch.from_numpy(method._cma.mean), means[i].double(), atol=1e-5, rtol=0)
        assert method.fitness.index(min(method.fitness)) == trace.meta["best_candidate_per_batch"][i]


def test_source_statistics_are_the_recorded_ones() -> None:
    trace = Trace("foa")
    learned = trace.build().prepared_state()
    for key, value in trace.tensors("extra/source_").items():
        torch.testing.assert_close(learned[key], value, atol=1e-5, rtol=1e-5)


def by_hand(vit: Any, batch: Tensor, prompts: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and the class token's features, with timm's parts called one by one."""
    x = vit._pos_embed(vit.patch_embed(batch))
    x = vit.norm_pre(torch.cat([x[:, :1], prompts.expand(len(x), -1, -1), x[:, 1:]], dim=1))
    features = []
    for block, following in zip(vit.blocks, [*(b.norm1 for b in vit.blocks[1:]), vit.norm], strict=True):
        x = block(x)
        features.append(following(x[:, 0]))
    return vit.head(features[-1]), torch.cat(features, dim=1)


@pytest.mark.parametrize("kind", [{}, {"reg_tokens": 2}, {"pre_norm": True}, {"init_values": 0.1, "depth": 3}])
def test_fitness_and_answer_by_hand(kind: dict[str, Any]) -> None:
    model = small_vit(**kind)
    population = torch.randn(5, 48, generator=torch.Generator().manual_seed(1))
    method: Any = build_method(
        "foa",
        model,
        num_classes=10,
        params={"num_prompts": 2, "fitness_lambda": 0.3, "population_size": 5},
        initial_state={"population/0": population},
    )
    method.prepare(stream(count=3, seed=7))
    source = method.prepared_state()
    candidates = torch.cat([population.view(5, 2, 24), method.adapted_state()["prompts"]])
    (batch,) = stream(count=1)
    values, answers = [], []
    with torch.no_grad():
        for prompts in candidates:
            logits, features = by_hand(model, batch, prompts[None])
            entropies = -(logits.softmax(1) * logits.log_softmax(1)).sum(1)
            std, mean = torch.std_mean(features, dim=0)
            distance = (std - source["std"]).square().sum() + (mean - source["mean"]).square().sum()
            values.append(float(entropies.sum() + 0.3 * distance * 8 / 64))
            answers.append(logits)
    answer = method.adapt(batch)
    assert method.fitness == pytest.approx(values, rel=1e-4)
    best = values.index(min(values))
    torch.testing.assert_close(answer, answers[best], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(method.adapted_state()["prompts"], candidates[best : best + 1])


def test_the_patches_of_a_batch_are_embedded_once() -> None:
    model, calls = small_vit(), []
    method = built("foa", model)
    model.patch_embed.proj.register_forward_hook(lambda *seen: calls.append(1))
    with CostCounter(model) as cost:
        method.adapt(stream(count=1)[0])
    assert len(calls) == 1
    assert cost.sample_forwards == 28 * 8
    assert "forward" not in vars(model.patch_embed)


def test_a_failure_leaves_the_model_usable() -> None:
    model, (batch,) = small_vit(), stream(count=1)
    with torch.no_grad():
        plain = model(batch)
    method = built("foa", model)
    with pytest.raises(AssertionError):
        method.adapt(torch.rand(2, 3, 20, 20))  # timm wants 16 px
    with torch.no_grad():
        assert torch.equal(model(batch), plain)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_single_images_adapt_by_the_mean_alone() -> None:
    method = built("foa", small_vit(), population_size=4)
    for batch in stream(count=3, size=1):
        assert method.adapt(batch).isfinite().all()
        assert np.isfinite(method.fitness).all()


def test_a_given_population_of_another_size_is_refused() -> None:
    with pytest.raises(UserError, match=r"'population/0' has shape \(3, 72\), expected \(27, 72\)"):
        build_method("foa", small_vit(), num_classes=10, initial_state={"population/0": torch.zeros(3, 72)})


def test_one_source_image_has_no_spread() -> None:
    with pytest.raises(UserError, match="foa: prepare.. got 1 source images; a standard deviation needs 2 or more"):
        build_method("foa", small_vit(), num_classes=10).prepare(stream(count=1, size=1))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: small_resnet(), "foa needs a timm VisionTransformer, ResNet is none"),
        (lambda: tiny("convnext_atto"), "foa needs a timm VisionTransformer, ConvNeXt is none"),
        (lambda: small_vit(global_pool="avg"), "does not classify by one"),
        (lambda: small_vit(class_token=False, global_pool="avg"), "does not classify by one"),
        (lambda: small_vit(global_pool="map"), "does not classify by one"),
        (lambda: small_vit(depth=0), "needs blocks"),
    ],
)
def test_models_that_prompts_cannot_steer_are_refused(model: Any, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        build_method("foa", model(), num_classes=10)


def test_without_cma_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(UserError, match=r"foa needs the package cma: pip install 'tta-bench\[foa\]'"):
        build_method("foa", small_vit(), num_classes=10)
    built("foa-shift", small_vit())


@pytest.mark.parametrize("network", [small_vit(), small_vit(global_pool="avg"), small_resnet("group")])
def test_the_shift_by_hand(network: Any) -> None:
    source, batches = stream(count=3, seed=7), stream(count=4, last=1)
    method = built("foa-shift", network)
    with torch.no_grad():
        features = [network.forward_head(network.forward_features(b), pre_logits=True) for b in [*source, *batches]]
        mean, average = torch.cat(features[:3]).mean(0), None
        for batch, seen in zip(batches, features[3:], strict=True):
            shift = 0 if average is None else mean - average
            expected = network.get_classifier()(seen + shift)
            torch.testing.assert_close(method.adapt(batch), expected, atol=1e-5, rtol=1e-4)
            average = seen.mean(0) if average is None else 0.9 * average + 0.1 * seen.mean(0)
    torch.testing.assert_close(method.adapted_state()["feature_mean"], average)


def test_a_moving_average_given_at_the_start_is_where_reset_returns_to() -> None:
    start = {"feature_mean": torch.linspace(-1, 1, 24)}
    method: Any = build_method("foa-shift", small_vit(), num_classes=10, initial_state=start)
    method.prepare(stream(count=2, seed=7))
    (batch,) = stream(count=1)
    first = method.adapt(batch)
    assert not torch.allclose(first, built("foa-shift", small_vit()).adapt(batch), atol=1e-3)
    method.reset()
    assert torch.equal(method.adapt(batch), first)
