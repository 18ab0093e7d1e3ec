"""Every method on every kind of model, with class masks, in bf16, compiled, and over a long stream."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial, partialmethod
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.methods.test_method_models import KINDS
from tests.support.needed import needed, prompts_for
from tests.support.small import BATCHNORM_ONLY, small_resnet, small_vit, stream, tiny
from tta_bench import Method, build_method, registry
from tta_bench.errors import UserError
from tta_bench.models import precision
from tta_bench.models.source import keep_classes

NAMES = registry.installed().names()
every_method = pytest.mark.parametrize("name", NAMES)
# Less of the same work, and memories that fill up within a few batches.
QUICK: dict[str, dict[str, Any]] = {
    "adacontrast": {"queue_size": 16, "warmup_samples": 8, "neighbours": 2},
    "cotta": {"augmentations": 2, "anchor_threshold": 2.0},
    "dept-g": {"queue_size": 16, "neighbours": 2},
    "foa": {"population_size": 4},
    "memo": {"augmentations": 2},
    "note": {"memory_size": 5, "update_frequency": 3},
    "rotta": {"memory_size": 5, "update_frequency": 3},
    "sotta": {"memory_size": 5, "update_frequency": 3, "confidence_threshold": 0.2},
    "t3a": {"filter_k": 2},
}
MODELS: dict[str, Callable[[], nn.Module]] = {"class token": partial(small_vit, img_size=32), **KINDS}
POOLED = ("average pooling", "no class token")
NO_VIT = ("BatchNorm", "GroupNorm", "ConvNeXt")
LINEUP = "set frozen_blocks to an empty list to adapt them all"
REFUSED: dict[tuple[str, str], str] = {
    **{(name, kind): "layers, and .* has none" for name in BATCHNORM_ONLY for kind in MODELS if kind != "BatchNorm"},
    **{(name, kind): "the class token, and this" for name in ("dpal", "dpal-official", "foa") for kind in POOLED},
    **{(name, kind): "needs a timm VisionTransformer" for name in ("dpal", "dpal-official", "foa") for kind in NO_VIT},
    **{("dept-g", kind): "the class token, and this" for kind in POOLED},
    **{("dept-g", kind): "needs a timm VisionTransformer" for kind in NO_VIT},
    **{(name, "ConvNeXt"): LINEUP for name in ("sar", "sar-come", "deyo", "sotta")},
}


def built(name: str, model: nn.Module, num_classes: int = 10, pixels: int = 32, **params: Any) -> Method:
    given = {**QUICK.get(name, {}), **needed(name), **params}
    method = build_method(name, model, num_classes=num_classes, batch_size=8, params=given)
    if method.needs_source:
        labels = [torch.arange(8) % num_classes] * 2 if method.uses_labels else None
        method.prepare(stream(count=2, seed=7, pixels=pixels), labels)
    return method


def model_for(name: str) -> nn.Module:
    model: nn.Module = small_resnet() if name in BATCHNORM_ONLY else small_vit()
    return model


def pixels_for(name: str) -> int:
    return 32 if name in BATCHNORM_ONLY else 16


@pytest.mark.parametrize("kind", MODELS)
@every_method
def test_every_kind_of_model_works_or_is_refused_with_the_reason(name: str, kind: str, tmp_path: Path) -> None:
    """Batches of several sizes, a single image among them; `reset` replays bit for bit."""
    model = MODELS[kind]()
    if reason := REFUSED.get((name, kind)):
        with pytest.raises(UserError, match=reason) as refusal:
            built(name, model) if name != "dept-g" else prompts_for(model, tmp_path / "none", pixels=32)
        assert "\n" not in str(refusal.value)
        return
    params = {}
    if name == "dept-g":
        params["prompts"] = str(prompts_for(MODELS[kind](), tmp_path / "p.safetensors", pixels=32))
    method = built(name, model, **params)
    start = method.adapted_state()
    batches = [*stream(count=2, size=4, pixels=32, last=3), *stream(count=1, size=1, pixels=32)]
    first = [method.adapt(batch) for batch in batches]
    for batch, logits in zip(batches, first, strict=True):
        assert logits.shape == (len(batch), 10)
        assert logits.isfinite().all()
    method.reset()
    assert all(torch.equal(tensor, start[key]) for key, tensor in method.adapted_state().items())
    for batch, logits in zip(batches, first, strict=True):
        assert torch.equal(method.adapt(batch), logits)


@pytest.mark.parametrize("name", ["sar", "deyo", "sotta"])
def test_the_way_out_of_unknown_blocks_works(name: str) -> None:
    (batch,) = stream(count=1, size=4, pixels=32)
    method = built(name, tiny("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)), frozen_blocks=[])
    assert method.adapt(batch).isfinite().all()


@every_method
def test_models_cut_down_to_some_classes_adapt(name: str, tmp_path: Path) -> None:
    """As for ImageNet-R and -A: a method sees the logits of the kept classes alone, in the model's order."""
    kept, pixels = [1, 4, 7], pixels_for(name)
    model = model_for(name)
    (batch,) = stream(count=1, pixels=pixels)
    with torch.no_grad():
        whole = model(batch)
    keep_classes(model, kept)
    with torch.no_grad():
        torch.testing.assert_close(model(batch), whole[:, kept])
    params = {}
    if name == "dept-g":
        cut = small_vit()
        keep_classes(cut, kept)
        params["prompts"] = str(prompts_for(cut, tmp_path / "p.safetensors", classes=3))
    method = built(name, model, num_classes=3, pixels=pixels, **params)
    for images in (batch, batch[:1]):
        logits = method.adapt(images)
        assert logits.shape == (len(images), 3)
        assert logits.isfinite().all()


@every_method
def test_bf16(name: str) -> None:
    """What adapts stays in float32, and the logits stay near those of a run in full precision."""
    device = torch.device("cpu")
    try:
        precision.refuse_missing_bf16(device)
    except UserError as error:
        pytest.skip(str(error))
    pixels = pixels_for(name)
    half, full = (built(name, model_for(name), pixels=pixels) for _ in range(2))
    for batch in stream(count=2, size=4, pixels=pixels):
        with precision.autocast(device, "bf16"):
            logits = half.adapt(batch)
        assert logits.isfinite().all()
        assert float((logits.float() - full.adapt(batch)).abs().mean()) < 0.5
    for key, tensor in half.adapted_parameters().items():
        assert tensor.dtype in (torch.float32, torch.int64), key
        assert tensor.isfinite().all(), key


@pytest.mark.filterwarnings("default")  # the compiler warns about its own future
@pytest.mark.slow  # all of them take two minutes; the slow tests of precision compile for real
@every_method
def test_a_traced_model_computes_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through torch.compile, but for the generated code, which the slow tests run for some methods."""
    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend="eager"))
    pixels = pixels_for(name)

    def run(compiled: bool) -> Tensor:
        model = model_for(name)
        method = built(name, precision.compiled(model) if compiled else model, pixels=pixels)
        return torch.cat([method.adapt(batch) for batch in stream(count=2, size=4, pixels=pixels)])

    torch.testing.assert_close(run(True), run(False), atol=1e-5, rtol=1e-4)


@every_method
def test_memory_stays_bounded_over_a_stream(name: str) -> None:
    """After its memories have filled up, a method holds no more tensors, however often it recovers in between."""
    pixels = pixels_for(name)
    method = built(name, model_for(name), pixels=pixels)
    batches, held = stream(count=2, size=4, pixels=pixels), []
    for batch in batches * 8:
        method.adapt(batch)
        held.append(bytes_held(method))
    assert max(held[10:]) <= max(held[:10])


def bytes_held(method: Method) -> int:
    """The memory of all tensors that a method can reach."""
    seen: dict[int, object] = {}
    sizes: dict[int, int] = {}
    left: list[object] = [method]
    while left:
        found = left.pop()
        if id(found) in seen or isinstance(found, (type, ModuleType, FunctionType, BuiltinFunctionType)):
            continue
        seen[id(found)] = found
        if type(found) in (Tensor, nn.Parameter):
            store = found.untyped_storage()  # type: ignore[attr-defined]
            sizes[store.data_ptr()] = store.nbytes()
        left += gc.get_referents(found)
    return sum(sizes.values())
