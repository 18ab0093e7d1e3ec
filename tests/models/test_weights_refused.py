"""Weights that cannot be used: each is one line that names the file, what is wrong and what to do."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tests.support.vits import TINY, augreg, saved
from tta_bench.errors import UserError
from tta_bench.models import checkpoint, weights
from tta_bench.models import source as models

CPU = torch.device("cpu")


@pytest.mark.parametrize("form", ["pth", "npz", "safetensors"])
def test_a_file_without_architecture_says_how_to_name_one(tiny: VisionTransformer, form: str, tmp_path: Path) -> None:
    path = saved(tiny, form, tmp_path)
    with pytest.raises(UserError, match=rf"--model vit_base_patch16_224.augreg_in21k_ft_in1k={path}"):
        models.load(str(path))


class Code:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("code in a checkpoint was run",))


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"state_dict": {}, "extra": Code()}, tmp_path / "evil.pth")
    with pytest.raises(UserError, match="evil.pth: holds more than weights.*state_dict"):
        models.load(f"{TINY}={tmp_path / 'evil.pth'}")
    np.savez(tmp_path / "evil.npz", **{"head/bias": np.array([Code()], dtype=object), "encoderblock_0/x": np.ones(1)})
    with pytest.raises(UserError, match="evil.npz: not a readable .npz"):
        models.load(f"{TINY}={tmp_path / 'evil.npz'}")
    assert "was run" not in capsys.readouterr().out


def damage(state: dict[str, Tensor], how: str) -> Any:
    if how == "missing:":
        del state["blocks.3.norm1.weight"]
    elif how == "unexpected:":
        state["blocks.9.norm1.weight"] = torch.ones(64)
    elif how == "size mismatch":
        state["norm.weight"] = torch.ones(65)
    elif how == "tensors by name":
        return {"state_dict": [1, 2]}
    return state


@pytest.mark.parametrize("how", ["missing:", "unexpected:", "size mismatch", "tensors by name"])
def test_weights_that_do_not_fit_are_named(tiny: VisionTransformer, how: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.pth"
    torch.save(damage(dict(tiny.state_dict()), how), path)
    with pytest.raises(UserError, match=f"bad.pth: .*{how}") as caught:
        models.load(f"{TINY}={path}")
    assert "\n" not in str(caught.value)


def test_another_input_size_shows_the_working_way(tiny: VisionTransformer, tmp_path: Path) -> None:
    state = {**tiny.state_dict(), "pos_embed": torch.zeros(1, 50, tiny.embed_dim)}
    torch.save(state, tmp_path / "fine.pth")
    with pytest.raises(
        UserError, match=r"size mismatch: pos_embed .*--model-args, as in img_size=98, or .*: --model local-dir:FOLDER"
    ):
        models.load(f"{TINY}={tmp_path / 'fine.pth'}")


def test_a_checkpoint_of_another_model_is_refused_in_one_short_line(tmp_path: Path) -> None:
    other = {f"layers.{i}.weight": torch.zeros(2) for i in range(200)}
    torch.save(other, tmp_path / "other.pth")
    with pytest.raises(UserError, match=r"missing: .*, .*, .* and \d+ more; unexpected: .* and 197 more$") as caught:
        models.load(f"{TINY}={tmp_path / 'other.pth'}")
    assert len(str(caught.value)) - len(str(tmp_path)) < 250


def test_a_note_that_does_not_fit_its_weights_is_refused_in_one_short_line(tmp_path: Path) -> None:
    small = {"img_size": 32, "patch_size": 16, "num_classes": 7, "embed_dim": 8, "depth": 2, "num_heads": 1}
    note = checkpoint.ModelNote({**small, "embed_dim": 16}, (0.5,) * 3, (0.5,) * 3)
    checkpoint.save(checkpoint.build(checkpoint.ModelNote(small, (), ())), note, tmp_path / "bad.safetensors")
    with pytest.raises(UserError, match=r"size mismatch: .* \(1, 1, 8\) where the model has .* more$") as caught:
        models.load(str(tmp_path / "bad.safetensors"))
    assert len(str(caught.value)) - len(str(tmp_path)) < 350


SIZES = {"img_size": 32, "patch_size": 16, "num_classes": 7, "embed_dim": 8, "depth": 1, "num_heads": 1}
NOTE: dict[str, Any] = {"architecture": SIZES, "mean": [0.5] * 3, "std": [0.5] * 3, "made_by": {}}


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({**NOTE, "architecture": {"timm": "digits-vit"}}, r"cannot be built \(RuntimeError: Unknown model"),
        (
            {**NOTE, "architecture": {"timm": "a.safetensors"}},
            "if it is a timm model, use --model NAME=",
        ),
        ({**NOTE, "architecture": {**SIZES, "num_heads": 3}}, "the architecture in its header cannot be built"),
        ({**NOTE, "architecture": {**SIZES, "legs": 4}}, "cannot be built .TypeError: .*legs"),
        ({**NOTE, "architecture": "vit"}, "note in its header: architecture: expected keys and values, got 'vit'"),
        ({**NOTE, "mean": [0.5]}, "mean: expected 3 numbers, got"),
        ({**NOTE, "std": [0, 1, 1]}, "std: entry 1: expected a number above 0, got 0"),
        ({**NOTE, "mean": None}, "mean: expected 3 numbers, got None"),
        ({**NOTE, "colour": "red"}, "note in its header: unknown key 'colour'"),
        ({}, "note in its header: missing keys 'architecture', 'mean', 'std'"),
        ([], "note in its header: expected keys and values, got "),
    ],
)
def test_a_wrong_header_is_one_line(header: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    save_file({"head.weight": torch.zeros(7, 8)}, path, metadata={checkpoint.HEADER: json.dumps(header)})
    with pytest.raises(UserError, match=rf"{path}: .*{said}") as caught:
        models.load(str(path))
    assert "\n" not in str(caught.value)
    save_file({"head.weight": torch.zeros(7, 8)}, path, metadata={checkpoint.HEADER: "no JSON"})
    with pytest.raises(UserError, match="note in its header: invalid JSON"):
        models.load(str(path))


@pytest.mark.parametrize("name", ["{}", f"{TINY}={{}}"])
def test_why_a_file_cannot_be_opened_is_reported(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(UserError, match=f"model file {path} does not exist"):
        models.load(name.format(path))
    path.mkdir()
    with pytest.raises(UserError, match=f"model file {path} is a folder, expected .safetensors"):
        models.load(name.format(path))
    path.rmdir()
    path.touch()

    def locked(*words: Any, **more: Any) -> None:  # in fact: the tests may be run by root, who may read anything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", locked)
    with pytest.raises(UserError, match=f"model file {path} cannot be read: Permission denied"):
        models.load(name.format(path))


def test_batch_norm_counters_may_be_missing() -> None:
    network = torch.nn.Sequential(torch.nn.BatchNorm2d(2))
    old = {name: tensor for name, tensor in network.state_dict().items() if "num_batches" not in name}
    assert checkpoint.misfit(network, old) is None
    network.load_state_dict(old)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("head/bias", "not an AugReg .npz with a head"),
        ("Transformer/encoderblock_5/", "is a ViT with 5 blocks, but 'test_vit' has 6"),
        ("cls", "do not fit 'test_vit'"),
    ],
)
def test_an_npz_that_does_not_fill_the_model_is_refused(
    tiny: VisionTransformer, key: str, said: str, tmp_path: Path
) -> None:
    content = {name: array for name, array in augreg(tiny).items() if not name.startswith(key)}
    np.savez(tmp_path / "bad.npz", **content)
    with pytest.raises(UserError, match=said):
        models.load(f"{TINY}={tmp_path / 'bad.npz'}")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.pth", None, "none.pth does not exist"),
        ("x.onnx", b"", "x.onnx: expected .safetensors, .pth, .pt, .npz"),
        ("x.pth", b"garbage", "x.pth: "),
        ("x.pth", pickle.dumps([1]), "x.pth: "),
        ("x.safetensors", b"garbage", "x.safetensors: not a readable safetensors file"),
        ("x.npz", b"garbage", "x.npz: not a readable .npz"),
    ],
)
def test_broken_files_are_named(name: str, content: bytes | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        models.load(f"{TINY}={tmp_path / name}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vit_bas_patch16_224=x.pth", "unknown model 'vit_bas_patch16_224'; did you mean 'vit_base_patch16_224'"),
        ("=x.pth", "unknown model ''"),
        ("test_vit.no_such_tag", "weights of 'test_vit.no_such_tag' cannot be loaded .*no_such_tag=FILE"),
    ],
)
def test_wrong_names_are_named(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        models.load(name)


def test_a_file_for_an_unknown_tag_is_refused(tiny: VisionTransformer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'test_vit.no_such_tag' cannot be .*no_such_tag") as caught:
        models.load(f"test_vit.no_such_tag={saved(tiny, 'pth', tmp_path)}")
    assert "\n" not in str(caught.value)


def test_without_network_or_cache_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from huggingface_hub import constants

    def no_network(*words: Any, **more: Any) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(weights.socket, "getaddrinfo", no_network)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for name in ("https_proxy", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with pytest.raises(UserError, match=r"--model test_vit.r160_in1k=FILE .*fill the Hugging Face cache") as caught:
        models.load("test_vit.r160_in1k")
    assert "\n" not in str(caught.value)
    assert "not in the cache, and no network: Name or service not known" in str(caught.value)
    assert not caplog.records, "the hub's client was not asked"
