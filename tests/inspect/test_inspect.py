"""`tta-bench inspect`: captures the right activations, changes nothing, and stores what figures need."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from tests.support.cli import Cli
from tests.support.needed import needed
from tests.support.small import BATCHNORM_ONLY, small_vit, stream
from tta_bench import registry
from tta_bench.datasets import digits
from tta_bench.errors import UserError
from tta_bench.inspect import probe
from tta_bench.inspect.inspection import Inspection
from tta_bench.inspect.inspector import pearson
from tta_bench.registry import build_method
from tta_bench.streams.scenarios import Normal
from tta_bench.streams.stream import Part, make_stream


def weights_by_hand(vit: VisionTransformer, run: Callable[[], Any]) -> Tensor:
    """Softmax of queries times keys in the last block, from what enters its attention: [B, heads, N, N]."""
    attn: Any = vit.blocks[-1].attn
    entered: list[Tensor] = []
    hook = attn.register_forward_pre_hook(lambda module, args: entered.append(args[0]))
    with torch.no_grad():
        run()
        hook.remove()
        x = entered[0]
        b, n, width = x.shape
        q, k, _ = attn.qkv(x).reshape(b, n, 3, attn.num_heads, width // attn.num_heads).permute(2, 0, 3, 1, 4)
        return (q @ k.transpose(-1, -2) * attn.scale).softmax(-1)


def logits_of(model: nn.Module) -> Callable[[Tensor], dict[str, Tensor]]:
    return lambda batch: {"logits": model(batch)}


def test_attention_is_that_of_the_class_token_to_the_patches() -> None:
    vit, (batch,) = small_vit(), stream(1, 3)
    expected = weights_by_hand(vit, lambda: vit(batch))[:, :, 0, 1:].mean(1)
    captured = probe.capture(vit, logits_of(vit), batch)
    torch.testing.assert_close(captured.attention, expected.reshape(3, 2, 2))
    torch.testing.assert_close(captured.features["logits"], vit(batch).detach())


def test_tokens_that_a_method_prepends_are_not_patches() -> None:
    vit, (batch,) = small_vit(), stream(1, 3)
    method = build_method("dpal", vit, num_classes=10, batch_size=3, params={"shift_tokens": 2})
    expected = weights_by_hand(vit, lambda: method.features(batch))
    assert expected.shape[-1] == 2 + 1 + 4
    captured = probe.capture(vit, method.features, batch)
    torch.testing.assert_close(captured.attention, expected[:, :, 2, 3:].mean(1).reshape(3, 2, 2))
    assert captured.features["shifts"].shape == (12, 3, 24)


def test_tokens_that_a_method_inserts_are_not_patches() -> None:
    vit, (batch,) = small_vit(), stream(1, 3)
    prompt = torch.randn(1, 5, 24, generator=torch.Generator().manual_seed(0))

    def enter(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        return (torch.cat([args[0][:, :1], prompt.expand(len(args[0]), -1, -1), args[0][:, 1:]], 1),)

    vit.blocks[0].register_forward_pre_hook(enter)
    expected = weights_by_hand(vit, lambda: vit(batch))[:, :, 0, 6:].mean(1)
    torch.testing.assert_close(probe.capture(vit, logits_of(vit), batch).attention, expected.reshape(3, 2, 2))


def test_patches_are_the_outputs_of_the_blocks() -> None:
    vit, (batch,) = small_vit(), stream(1, 2)
    left: list[Tensor] = []
    hooks = [block.register_forward_hook(lambda m, a, out: left.append(out)) for block in vit.blocks]
    vit(batch)
    for hook in hooks:
        hook.remove()
    first, last = probe.capture(vit, logits_of(vit), batch).patches
    torch.testing.assert_close(first, left[0][:, 1:].detach())
    # The last block runs unfused during the capture: equal up to rounding.
    torch.testing.assert_close(last, left[-1][:, 1:].detach())


def test_hooks_are_removed_even_after_a_failure() -> None:
    vit, (batch,) = small_vit(), stream(1, 2)
    attn: Any = vit.blocks[-1].attn
    fused = attn.fused_attn

    def breaks(batch: Tensor) -> dict[str, Tensor]:
        vit(batch)
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        probe.capture(vit, breaks, batch)
    assert attn.fused_attn is fused
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in vit.modules())


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (nn.Linear(2, 2), "Linear is not one"),
        (small_vit(class_token=False, global_pool="avg"), "has none"),
    ],
)
def test_models_without_class_token_attention_are_refused(model: nn.Module, said: str) -> None:
    with pytest.raises(UserError, match=said):
        probe.require_vit(model)


@pytest.mark.parametrize("name", [name for name in registry.installed().names() if name not in BATCHNORM_ONLY])
def test_capturing_changes_no_later_batch(name: str) -> None:
    batches = stream(4, 8)

    def logits(with_capture: bool) -> list[Tensor]:
        vit = small_vit()
        method = build_method(name, vit, num_classes=10, batch_size=8, params=needed(name))
        if method.needs_source:
            method.prepare(iter(batches[:1]), *([iter([torch.arange(8)])] if method.uses_labels else []))
        found = []
        for batch in batches:
            found.append(method.adapt(batch))
            if with_capture:
                features = probe.capture(vit, method.features, batch).features
                assert features["logits"].shape == (8, 10)
        return found

    for seen, unseen in zip(logits(True), logits(False), strict=True):
        assert torch.equal(seen, unseen)


def test_correlation_is_pearsons() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 5, 16, generator=generator)
    expected = [np.corrcoef(x, y)[0, 1] for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(pearson(a, b), expected, rtol=1e-5)
    assert pearson(torch.ones(16), b[0]) == 0


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tta_bench.cli.main import main

    out = tmp_path_factory.mktemp("inspect") / "dpal"
    words = ["inspect", "--method", "dpal", "--tasks", "contrast,fog", "--batches", "2", "--images", "3"]
    assert main([*words, "--out", str(out)]) == 0
    return out


def test_inspect_keeps_what_the_figures_need(inspected: Path) -> None:
    found = Inspection.open(inspected)
    assert found.tasks == ["contrast", "fog"]
    assert found.task.tolist() == ["contrast"] * 64 + ["fog"] * 64
    assert found.shift_first.shape == found.shift_last.shape == (128, 64)
    assert found.shift_last.std(0).any(), "samples have shifts of their own"
    for kind in ("clean", "corrupted", "adapted"):
        maps = getattr(found, f"attention_{kind}")
        assert maps.shape == (128, 4, 4)
        assert ((maps > 0) & (maps < 1)).all()
        assert (maps.sum((1, 2)) < 1).all(), "the class token attends to itself, too"
    assert (found.attention_clean != found.attention_corrupted).any()
    assert (found.attention_adapted != found.attention_corrupted).any()
    assert found.correlation_last.shape == (128, 4, 4)
    assert (np.abs(found.correlation_last) <= 1).all()
    assert found.shown.tolist() == [32, 33, 34, 96, 97, 98], "the first of each task's last batch"
    manifest = json.loads((inspected / "manifest.json").read_text())
    assert (manifest["method"], manifest["batches"], manifest["seed"]) == ("dpal", 2, 0)
    assert manifest["command"][:2] == ["tta-bench", "inspect"]


def test_inspect_sees_the_images_of_a_run_in_their_order(inspected: Path) -> None:
    fog = digits.corrupted("fog", 5)
    order = make_stream(Normal(), "digits-c-5", 0, [Part("fog", fog)]).order
    found = Inspection.open(inspected)
    np.testing.assert_array_equal(found.label[64:], fog.labels[order[:64]])
    np.testing.assert_array_equal(found.image[3:], fog.read(order[32:35]))
    np.testing.assert_array_equal(found.original[3:], digits.stream_images().read(order[32:35]))


def test_a_method_without_shifts_leaves_attention_only(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "tent"
    status, shown, _ = cli("inspect", "--method", "tent", "--tasks", "fog", "--batches", 1, "--out", out)
    assert status == 0
    assert "shift features" not in shown
    found = Inspection.open(out)
    assert (len(found.shift_last), len(found.correlation_last), len(found.attention_adapted)) == (0, 0, 32)
    assert cli("inspect", "--method", "tent", "--tasks", "fog", "--batches", 1, "--out", out)[0] == 0, "once more"


BAD = [
    (["--method", "tnt"], "unknown method 'tnt'; did you mean 'tent'"),
    (["--method", "tent", "--tasks", "fgo"], "has no task 'fgo'; did you mean 'fog'"),
    (["--method", "tent", "--batches", "0"], "expected a whole number of at least 1"),
    (["--method", "tent", "--set", "dpal.lr=0"], "method 'dpal' is not in this run"),
    (["--method", "tent", "--out", "mine"], "holds other files"),
    ([], "required: --method"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=[" ".join(words) or "nothing" for words, _ in BAD])
def test_a_mistake_is_one_line_and_leaves_nothing(cli: Cli, words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    status, shown, err = cli("inspect", *words)
    assert (status, said in err, err.count("\n"), shown) == (2, True, 1, ""), err
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "notes.txt"]


def test_a_manifest_edited_by_hand_is_one_line(cli: Cli, inspected: Path, tmp_path: Path) -> None:
    manifest = json.loads((inspected / "manifest.json").read_text())
    (tmp_path / "features.npz").write_bytes((inspected / "features.npz").read_bytes())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "batches": 0}))
    status, _, err = cli("figure", tmp_path, "attention")
    said = f"{tmp_path}/manifest.json: batches: expected a whole number of at least 1, got 0"
    assert (status, said in err, err.count("\n")) == (2, True, 1), err


def test_a_damaged_inspection_is_one_line(cli: Cli, inspected: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((inspected / "manifest.json").read_bytes())
    (tmp_path / "features.npz").write_bytes((inspected / "features.npz").read_bytes()[:500])
    status, _, err = cli("figure", tmp_path, "attention")
    assert (status, "features.npz cannot be read" in err, err.count("\n")) == (2, True, 1)
