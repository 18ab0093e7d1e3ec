"""Leaving out what no logit depends on changes no logit."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from torch import nn
from tta_bench_methods._lean import Lean

from tests.support.small import small_vit, stir, stream
from tta_bench.models import precision

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "registers": {"reg_tokens": 4},
    "positions for patches only": {"no_embed_class": True},
    "norm before blocks": {"pre_norm": True},
    "normed queries": {"qk_norm": True},
    "layer scale": {"init_values": 0.1},
    "drop path": {"drop_path_rate": 0.5, "proj_drop_rate": 0.5},
    "one block": {"depth": 1},
    "average pooling": {"global_pool": "avg"},
    "attention pooling": {"global_pool": "map"},
    "no blocks": {"depth": 0},
}
AS_IT_IS = ("average pooling", "attention pooling", "no blocks")


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_equal_and_gradients_close(kind: str) -> None:
    model, (batch,) = small_vit(**KINDS[kind]), stream(count=1)
    lean = Lean(model)
    assert (lean._block is None) == (kind in AS_IT_IS)
    plain, quick = model(batch), lean(batch)
    assert torch.equal(plain, quick)
    parameters = list(model.parameters())
    ways = [torch.autograd.grad(z.log_softmax(1)[:, 0].sum(), parameters, allow_unused=True) for z in (plain, quick)]
    for one, other in zip(*ways, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_the_last_block_sees_the_class_token_alone() -> None:
    model, (batch,) = small_vit(), stream(count=1)
    seen: list[int] = []
    for block in model.blocks:
        block.mlp.register_forward_hook(lambda module, args, out: seen.append(out.shape[1]))
    Lean(model)(batch)
    assert seen == [5] * 11 + [1]


@pytest.mark.parametrize("name", ["deit_tiny_distilled_patch16_224", "convnext_atto", "beit_base_patch16_224"])
def test_models_that_read_other_tokens_run_as_they_are(name: str) -> None:
    with torch.random.fork_rng(devices=[]):
        small = {} if name.startswith("conv") else {"img_size": 32, "depth": 2, "embed_dim": 24, "num_heads": 3}
        model = timm.create_model(name, num_classes=10, **small).eval()
        stir(model)
    lean, (batch,) = Lean(model), stream(count=1, pixels=32)
    assert lean._block is None
    assert torch.equal(lean(batch), model(batch))


def test_a_vit_inside_a_wrapper_is_found() -> None:
    model, (batch,) = nn.Sequential(nn.Identity(), small_vit()).eval(), stream(count=1)
    assert Lean(model)._block is model[1].blocks[-1]
    assert torch.equal(Lean(model)(batch), model(batch))


def test_a_failed_forward_leaves_no_hooks() -> None:
    model = small_vit()
    with pytest.raises(AssertionError):
        Lean(model)(torch.rand(2, 3, 20, 20))  # timm wants 16 px
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_compiled_model_gets_no_hooks_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (batch,) = small_vit(), stream(count=1)
    real = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda self, **given: real(self, backend="eager"))
    lean = Lean(precision.compiled(model))
    monkeypatch.setattr(model.blocks[-1], "register_forward_hook", None)
    assert lean(batch).shape == (8, 10)
