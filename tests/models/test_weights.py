"""Models are built from tags and from files of every accepted form, and give the logits they should."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from tests.support.vits import TINY, saved
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter
from tta_bench.models import checkpoint
from tta_bench.models import source as models
from tta_bench.models.source import SourceModel

CPU = torch.device("cpu")


FORMS = ["safetensors", "npz", "pt", "pth", "pth wrapped", "pth parallel", "pth model", "pth parallel wrapped"]


@pytest.mark.parametrize("form", FORMS)
def test_weights_come_back_from_every_form(tiny: VisionTransformer, images: Tensor, form: str, tmp_path: Path) -> None:
    source = models.load(f"{TINY}.r160_in1k={saved(tiny, form, tmp_path)}")
    assert source.num_classes == 12  # from the file, not from the tag's 1000
    assert source.weights_hash == checkpoint.weights_hash(tiny.state_dict())  # whatever the form
    torch.testing.assert_close(source.network(images), tiny(images), rtol=0, atol=0)


def test_the_config_of_the_tag_is_used(tiny: VisionTransformer, images: Tensor, tmp_path: Path) -> None:
    path = saved(tiny, "safetensors", tmp_path)
    source = models.load(f"{TINY}.r160_in1k={path}")
    assert (source.mean, source.std) == ((0.5,) * 3, (0.5,) * 3)
    assert (source.input_size, source.interpolation) == (160, "bicubic")
    torch.testing.assert_close(source.fresh(CPU)(images), tiny((images - 0.5) / 0.5))
    paper: Any = timm.get_pretrained_cfg("vit_base_patch16_224.augreg_in21k_ft_in1k")
    assert (paper.mean, paper.std, paper.interpolation) == ((0.5,) * 3, (0.5,) * 3, "bicubic")


def test_the_embedded_model_knows_its_size() -> None:
    assert models.load("digits-vit").input_size == 32


def test_an_untagged_name_is_ambiguous() -> None:
    with pytest.raises(UserError, match=r"'augreg2_in21k_ft_in1k'.*vit_base_patch16_224.augreg_in21k_ft_in1k$"):
        models.refuse_ambiguous("vit_base_patch16_224")
    with pytest.raises(UserError, match="--model resnet50.a1_in1k"):
        models.refuse_ambiguous("resnet50")
    clear = [
        "vit_base_patch16_224.augreg_in21k_ft_in1k",
        "vit_base_patch16_224=x.npz",
        "mine.safetensors",
        "digits-vit",
    ]
    for name in clear:
        models.refuse_ambiguous(name)


# Masks


@pytest.fixture
def source(tiny: VisionTransformer, tmp_path: Path) -> SourceModel:
    return models.load(f"{TINY}.r160_in1k={saved(tiny, 'safetensors', tmp_path)}")


MASK = (1, 4, 11)


def test_a_mask_chooses_columns_of_the_logits(source: SourceModel, images: Tensor) -> None:
    masked = source.fresh(CPU, MASK)
    torch.testing.assert_close(masked(images), source.fresh(CPU)(images)[:, MASK])
    assert masked.num_classes == 3
    assert source.fresh(CPU)(images).shape == (2, 12)  # the source model is as it was
    assert [name for name, _ in masked.named_parameters()] == [n for n, _ in source.network.named_parameters()]


def test_gradients_through_a_mask_are_those_of_the_columns(source: SourceModel, images: Tensor) -> None:
    found = []
    for mask in (None, MASK):
        network = source.fresh(CPU, mask).requires_grad_(True)
        logits = network(images)[:, MASK] if mask is None else network(images)
        torch.special.entr(logits.softmax(1)).sum().backward()
        found.append(network.norm.weight.grad)
    torch.testing.assert_close(found[0], found[1])


def test_costs_are_counted_through_a_mask(source: SourceModel, images: Tensor) -> None:
    network = source.fresh(CPU, MASK).requires_grad_(True)
    with CostCounter(network) as cost:
        network(images).sum().backward()
    assert (cost.sample_forwards, cost.sample_backwards) == (2, 2)


def test_a_mask_needs_a_linear_classifier_with_its_classes(source: SourceModel) -> None:
    with pytest.raises(UserError, match="the class mask has class 12, but the model has only 12 classes"):
        source.fresh(CPU, (0, 12))
    with pytest.raises(UserError, match="only a linear classifier can be reduced to 3 classes"):
        models.keep_classes(nn.Sequential(nn.Conv2d(3, 3, 1)), MASK)


@pytest.mark.parametrize("name", ["test_vit", "test_vit3", "test_convnext", "test_resnet", "test_efficientnet"])
@pytest.mark.parametrize("classes", [1000, 7])
def test_weights_of_a_file_make_the_network_whole(name: str, classes: int, tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = timm.create_model(name, num_classes=classes).eval()
        images = torch.rand(2, 3, 160, 160)
    save_file(drawn.state_dict(), tmp_path / "weights.safetensors")
    found = models.load(f"{name}={tmp_path / 'weights.safetensors'}").network
    with torch.no_grad():
        assert torch.equal(found(images), drawn(images))


def test_cached_weights_are_loaded_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    def no_network(*words: object, **more: object) -> None:
        raise AssertionError("the network was used")

    with torch.random.fork_rng(devices=[]):
        trained = timm.create_model(TINY)
    home = tmp_path / "models--timm--test_vit.r160_in1k"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("abc")
    (home / "snapshots" / "abc").mkdir(parents=True)
    save_file(trained.state_dict(), home / "snapshots" / "abc" / "model.safetensors")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(socket.socket, "connect", no_network)
    found = models.load("test_vit.r160_in1k")
    assert torch.equal(found.network.head.weight, trained.head.weight)  # type: ignore[union-attr,arg-type]
