"""Methods that learn from altered views: every kind of model, single images, class masks, bf16, and compiled models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tests.support.small import small_resnet, small_vit, stream, tiny
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.models import precision
from tta_bench.models.source import keep_classes

# Few views, and thresholds that let a random model learn.
PARAMS: dict[str, dict[str, Any]] = {
    "cotta": {"lr": 0.01, "anchor_threshold": 2.0, "augmentations": 3, "restore_probability": 0.1},
    "memo": {"lr": 0.01, "augmentations": 4},
    "adacontrast": {"lr": 0.01, "queue_size": 16, "warmup_samples": 8, "neighbours": 2},
    "deyo": {"lr": 0.01, "entropy_threshold": 5.0, "plpd_threshold": -2.0, "patch_len": 2},
}
every_method = pytest.mark.parametrize("name", PARAMS)
KINDS: dict[str, Any] = {
    "class token": lambda: small_vit(img_size=32),
    "average pooling": lambda: small_vit(img_size=32, global_pool="avg"),
    "BatchNorm": small_resnet,
    "GroupNorm": lambda: small_resnet("group"),
    "ConvNeXt": lambda: tiny("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)),
    "inside a wrapper": lambda: nn.Sequential(nn.Identity(), small_vit(img_size=32)),
}


def built(name: str, model: nn.Module, num_classes: int = 10, **params: Any) -> Any:
    given = {**PARAMS[name], **params}
    return build_method(name, model, num_classes=num_classes, batch_size=8, params=given)


@pytest.mark.parametrize("kind", KINDS)
@every_method
def test_every_kind_of_model_adapts_and_resets(name: str, kind: str) -> None:
    frozen = {"frozen_blocks": []} if name == "deyo" and kind == "ConvNeXt" else {}
    method = built(name, KINDS[kind](), **frozen)
    batches = [
        *stream(count=2, size=4, pixels=32, last=3),
        *stream(count=1, size=1, pixels=32),
        torch.zeros(2, 3, 32, 32),
    ]
    start = method.adapted_state()
    first = [method.adapt(batch) for batch in batches]
    assert all(
        logits.isfinite().all() and logits.shape == (len(b), 10) for b, logits in zip(batches, first, strict=True)
    )
    after = method.adapted_state()
    assert all(tensor.isfinite().all() for tensor in after.values())
    assert sum(not torch.equal(after[key], value) for key, value in start.items()) > len(start) / 3
    method.reset()
    assert all(torch.equal(tensor, start[key]) for key, tensor in method.adapted_state().items())
    for batch, logits in zip(batches, first, strict=True):
        assert torch.equal(method.adapt(batch), logits)


def test_deyo_asks_where_it_does_not_know_the_blocks() -> None:
    with pytest.raises(UserError, match="set frozen_blocks to an empty list"):
        built("deyo", KINDS["ConvNeXt"]())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cotta", "has no layer with a `weight` or `bias` to adapt"),
        ("adacontrast", "adacontrast needs the features that enter one linear classifier"),
        ("deyo", "has no BatchNorm2d, GroupNorm or LayerNorm"),
    ],
)
def test_a_model_without_the_layers_that_a_method_needs_is_refused(name: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        built(name, nn.Sequential(nn.Flatten()), **({"frozen_blocks": []} if name == "deyo" else {}))


@every_method
def test_models_cut_down_to_some_classes_adapt(name: str) -> None:
    model = small_vit(num_classes=30)
    keep_classes(model, [3, 5, 8, 13, 21])
    method = built(name, model, num_classes=5)
    for batch in stream(count=2, size=4):
        logits = method.adapt(batch)
        assert logits.shape == (4, 5)
        assert logits.isfinite().all()


@every_method
def test_seeds_change_the_draws(name: str) -> None:
    runs = []
    for seed in (0, 0, 1):
        method = built(name, small_vit(), seed=seed)
        runs.append(torch.cat([method.adapt(batch) for batch in stream(count=3, size=4)]))
    assert torch.equal(runs[0], runs[1])
    if name != "deyo":  # an order of patches moves its weights, not the logits of the same batch
        assert not torch.equal(runs[0], runs[2])


@every_method
def test_predict_changes_nothing_that_comes_later(name: str) -> None:
    plain, asked = built(name, small_vit()), built(name, small_vit())
    for batch in stream(count=3, size=4):
        expected = plain.adapt(batch)
        assert asked.predict(batch).shape == expected.shape
        assert torch.equal(asked.adapt(batch), expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler warns about its own future
@every_method
def test_a_compiled_model_computes_the_same(name: str) -> None:
    """Teachers and anchors are other values in the same, compiled model."""

    def run(compiled: bool) -> torch.Tensor:
        torch.manual_seed(0)
        model = VisionTransformer(img_size=16, patch_size=8, num_classes=10, embed_dim=16, depth=2, num_heads=2)
        method = built(name, precision.compiled(model) if compiled else model)
        return torch.cat([method.adapt(batch) for batch in stream(count=3)])

    torch.testing.assert_close(run(True), run(False), atol=1e-4, rtol=1e-3)
