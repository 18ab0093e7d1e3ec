"""Other models: ResNets with BatchNorm and GroupNorm, many kinds of ViT, and those that DPAL must refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.small import small_resnet, small_vit, stream, tiny
from tta_bench import Method, build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter
from tta_bench.testing import check_method

NORM_METHODS = ["tent", "eta", "eata", "sar", "tent-come", "eata-come", "sar-come"]
NORM_LAYERS = ("batch", "group")


def built(name: str, model: nn.Module, **params: Any) -> Method:
    method = build_method(name, model, num_classes=10, batch_size=8, params=params)
    if method.needs_source:
        method.prepare(stream(count=2, seed=7, pixels=32))
    return method


@pytest.mark.parametrize("norm", NORM_LAYERS)
@pytest.mark.parametrize("name", NORM_METHODS)
def test_resnets_adapt(name: str, norm: str) -> None:
    method = built(name, small_resnet(norm), lr=0.01, **({} if name.startswith("tent") else {"entropy_threshold": 5.0}))
    start = method.adapted_state()
    batches = [*stream(pixels=32, last=3), *stream(count=2, size=1, pixels=32), torch.zeros(4, 3, 32, 32)]
    for batch in batches:
        logits = method.adapt(batch)
        assert logits.shape == (len(batch), 10)
        assert logits.isfinite().all()
    for key, tensor in method.adapted_parameters().items():
        assert tensor.isfinite().all(), key
        assert not torch.equal(tensor, start[key]), key
    assert any(key.startswith("layer4") for key in start) == (not name.startswith("sar"))


@pytest.mark.parametrize("norm", NORM_LAYERS)
@pytest.mark.parametrize("name", NORM_METHODS)
def test_resnets_keep_every_promise(name: str, norm: str) -> None:
    check_method(name, model=partial(small_resnet, norm), pixels=32)


KINDS: dict[str, Callable[[], nn.Module]] = {
    "average pooling": partial(small_vit, img_size=32, global_pool="avg"),
    "no class token": partial(small_vit, img_size=32, global_pool="avg", class_token=False),
    "BatchNorm": small_resnet,
    "GroupNorm": partial(small_resnet, "group"),
    "ConvNeXt": partial(tiny, "convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["t3a", "lame", "foa-shift", "cfa", "rdumb"])
def test_any_model_with_a_linear_classifier_will_do(name: str, kind: str) -> None:
    check_method(name, model=KINDS[kind], pixels=32)


@pytest.mark.parametrize("name", ["t3a", "lame", "foa-shift", "cfa", "foa", "rmt"])
def test_a_model_without_one_linear_classifier_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} needs the features that enter one linear classifier"):
        built(name, tiny("deit_tiny_distilled_patch16_224", depth=1, embed_dim=12, num_heads=2))


@pytest.mark.parametrize("name", NORM_METHODS)
def test_batchnorm_uses_the_statistics_of_the_batch(name: str) -> None:
    model, batch = small_resnet(), stream(count=1, pixels=32)[0]
    with torch.no_grad():
        expected = copy.deepcopy(model).train()(batch)
    torch.testing.assert_close(built(name, model).adapt(batch), expected, atol=1e-5, rtol=1e-4)


def test_one_image_is_normalised_by_itself() -> None:
    """The copy that makes statistics possible changes nothing where they already were."""
    model, image = small_resnet(), stream(count=1, size=1, pixels=96)[0]
    with torch.no_grad():
        expected = copy.deepcopy(model).train()(image)
    torch.testing.assert_close(built("tent", model).adapt(image), expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(("norm", "forwards"), [("batch", 8 + 8), ("group", 8 + 2 + 2)])
def test_second_pass_takes_the_whole_batch_only_where_samples_interact(norm: str, forwards: int) -> None:
    batch = stream(count=1, pixels=32)[0]
    method: Any = built("sar", small_resnet(norm), lr=0.0, rho=0.0, entropy_threshold=0.0)
    log_p = method.adapt(batch).log_softmax(1)
    method.entropy_threshold = float((-(log_p.exp() * log_p).sum(1)).sort().values[1:3].mean())
    with CostCounter(method.model) as counter:
        method.adapt(batch)
    assert counter.sample_forwards == forwards


@pytest.mark.parametrize(
    ("batch_size", "tent", "sar"), [(64, 2.5e-4, 2.5e-4), (16, 1.25e-4, 1.25e-4), (1, 7.8125e-6, 1.5625e-5)]
)
def test_published_rates_of_resnets(batch_size: int, tent: float, sar: float) -> None:
    for name, lr in (("tent", tent), ("sar", sar)):
        method: Any = build_method(name, small_resnet(), num_classes=10, batch_size=batch_size)
        assert method.lr == pytest.approx(lr, rel=1e-9)


def test_frozen_stages_of_a_resnet_are_a_setting() -> None:
    adapted = built("sar", small_resnet(), frozen_blocks=[1, 2]).adapted_parameters()
    assert {name.split(".")[0] for name in adapted} == {"bn1", "layer3", "layer4"}


def test_sar_asks_for_frozen_blocks_of_an_unknown_model() -> None:
    with pytest.raises(UserError, match="set frozen_blocks to an empty list"):
        built("sar", tiny("convnext_atto"))
    assert built("sar", tiny("convnext_atto"), frozen_blocks=[]).adapted_parameters()


def test_a_model_without_norms_is_refused() -> None:
    with pytest.raises(UserError, match="no BatchNorm2d, GroupNorm or LayerNorm"):
        built("tent", nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 10)))


VITS: dict[str, dict[str, Any]] = {
    "plain": {},
    "registers": {"reg_tokens": 4},
    "positions for patches only": {"no_embed_class": True},
    "registers, patches only": {"reg_tokens": 2, "no_embed_class": True},
    "patches of 4": {"patch_size": 4},
    "images of 32": {"img_size": 32},
    "dynamic size": {"dynamic_img_size": True},
    "norm before blocks": {"pre_norm": True},
    "normed queries": {"qk_norm": True},
    "layer scale": {"init_values": 0.1},
    "drop path": {"drop_path_rate": 0.5, "proj_drop_rate": 0.5},
    "24 blocks": {"depth": 24},
    "2 blocks": {"depth": 2},
}


@pytest.mark.parametrize("kind", VITS)
def test_dpal_wraps_any_class_token_vit(kind: str) -> None:
    model = small_vit(**VITS[kind])
    assert_wraps(model, pixels=VITS[kind].get("img_size", 16))


@pytest.mark.parametrize(
    "name", ["deit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "deit3_small_patch16_224"]
)
def test_dpal_wraps_deits(name: str) -> None:
    assert_wraps(tiny(name, img_size=32, depth=3, embed_dim=24, num_heads=3), pixels=32)


def assert_wraps(model: nn.Module, pixels: int) -> None:
    (batch,) = stream(count=1, pixels=pixels)
    with torch.no_grad():
        plain = model(batch)
    for name in ("dpal", "dpal-official"):
        method = built(name, model, entropy_threshold=5.0, reset_threshold=0.0, shift_tokens=2)
        start = method.adapted_state()
        assert method.adapt(batch).shape == plain.shape
        assert not torch.allclose(method.adapt(batch), plain)
        moved = {key for key, value in method.adapted_state().items() if not torch.equal(value, start[key])}
        assert "shift_tokens" in moved
        method.reset()
        with torch.no_grad():
            assert torch.equal(model(batch), plain), "the wrapped model is no longer usable by itself"


def test_dpal_leaves_a_model_usable_when_its_forward_fails() -> None:
    model, (batch,) = small_vit(), stream(count=1)
    with torch.no_grad():
        plain = model(batch)
    method = built("dpal", model)
    with pytest.raises(AssertionError):
        method.adapt(torch.rand(2, 3, 20, 20))  # timm wants 16 px
    with torch.no_grad():
        assert torch.equal(model(batch), plain)


def test_dpal_takes_the_shift_from_the_class_token_whatever_follows_it() -> None:
    """With zero predictors and tokens that nobody attends to, the logits are those of the model alone."""
    for changes in ({}, {"reg_tokens": 4}, {"no_embed_class": True}):
        model, (batch,) = small_vit(**changes), stream(count=1)
        for block in model.blocks:
            nn.init.zeros_(block.attn.proj.weight)
        with torch.no_grad():
            plain = model(batch)
        method = built("dpal", model, predictor_init="zeros")
        torch.testing.assert_close(method.adapt(batch), plain)
        biases = [name for name in method.adapted_state() if name.endswith("fc2.bias")]
        method.load_adapted_state({name: torch.linspace(-1, 3, 24) for name in biases})
        assert not torch.allclose(method.adapt(batch), plain, atol=1e-2)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: small_resnet(), "timm VisionTransformer, ResNet is none"),
        (lambda: tiny("convnext_atto"), "timm VisionTransformer, ConvNeXt is none"),
        (lambda: small_vit(class_token=False, global_pool="avg"), "has none"),
        (lambda: small_vit(global_pool="avg"), "'avg' pooling"),
        (lambda: small_vit(global_pool="map"), "'attention' pooling"),
        (lambda: small_vit(depth=0), "has none"),
    ],
)
@pytest.mark.parametrize("name", ["dpal", "dpal-official"])
def test_dpal_refuses_with_the_reason(name: str, model: Any, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        built(name, model())


def test_dpal_refuses_gradient_checkpointing() -> None:
    model = small_vit()
    model.set_grad_checkpointing(True)
    with pytest.raises(UserError, match="checkpointing off"):
        built("dpal", model)
