"""torchvision's models: their weights name the transforms, checksums in file names count, the cache is used."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import nn
from torchvision import models as torchvision

from tests.support import hubs
from tta_bench.errors import UserError
from tta_bench.models import checkpoint, names, published
from tta_bench.models import source as models

CPU = torch.device("cpu")
NAME = "mobilenet_v3_small"  # the smallest classifier that has one set of weights
V1 = f"tv:{NAME}.IMAGENET1K_V1"


@pytest.fixture(scope="module")
def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found: nn.Module = torchvision.get_model(NAME, weights=None)
    return found.eval()


def saved(network: nn.Module, folder: Path, name: str = "mine.pth") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(network.state_dict(), folder / "new")
    digest = hashlib.sha256((folder / "new").read_bytes()).hexdigest()[:8]
    return (folder / "new").rename(folder / name.format(digest))


def test_a_file_is_loaded_with_the_transforms_of_its_weights(network: nn.Module, tmp_path: Path) -> None:
    path = saved(network, tmp_path)
    found = models.load(f"{V1}={path}")
    assert (found.name, found.num_classes, found.input_size, found.interpolation) == (V1, 1000, 224, "bilinear")
    assert (found.mean, found.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert found.weights_hash == checkpoint.weights_hash(network.state_dict())
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (found.mean, found.std))
    with torch.no_grad():
        expected = network((images - mean) / std)
        torch.testing.assert_close(found.fresh(CPU)(images), expected)
        torch.testing.assert_close(found.fresh(CPU, (3, 5))(images), expected[:, (3, 5)])
    assert str(path) in str(names.stamp(f"{V1}={path}"))


def test_classes_are_those_of_the_file(tmp_path: Path) -> None:
    path = saved(torchvision.get_model(NAME, weights=None, num_classes=7), tmp_path)
    assert models.load(f"tv:{NAME}={path}").num_classes == 7, "it has one set of weights, so they need no name"


def test_the_checksum_in_a_name_counts(network: nn.Module, tmp_path: Path) -> None:
    path = saved(network, tmp_path, "net-{}.pth")
    assert models.load(f"{V1}={path}").num_classes == 1000
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(UserError, match=r"its sha256 starts with \w{8}, its name says \w{8}: the file is damaged"):
        models.load(f"{V1}={path}")


def test_the_cache_of_torch_is_used_without_a_network(
    network: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    hubs.no_network(monkeypatch)
    assert names.stamp(V1) is None
    with pytest.raises(UserError, match=f"weights of '{V1}' cannot be loaded .*no network.*download https") as caught:
        models.load(V1)
    assert "\n" not in str(caught.value)
    cached = tmp_path / "hub" / "checkpoints"
    name = Path(torchvision.get_model_weights(NAME).IMAGENET1K_V1.url).name
    saved(network, cached, name)
    with pytest.raises(UserError, match=f"{name}: its sha256 starts with .* delete it and download it again"):
        models.load(V1)  # ours has another checksum than the published weights
    monkeypatch.setattr("tta_bench.models.torchvision_._refuse_damaged", lambda path: None)
    assert models.load(V1).weights_hash == models.load(f"tv:{NAME}").weights_hash
    before = names.stamp(f"tv:{NAME}")
    assert before is not None
    saved(network, cached, "mobilenet_v3_small-12345678.pth")
    assert names.stamp(f"tv:{NAME}") != before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tv:resnet5=x.pth", "unknown model 'tv:resnet5'; did you mean 'resnet50'"),
        ("tv:resnet50.IMAGENET1K_V3=x.pth", "unknown weights 'tv:resnet50.IMAGENET1K_V3'; did you mean 'IMAGENET1K_V"),
        ("tv:resnet50=x.pth", "name the weights whose transforms this file uses .IMAGENET1K_V1, IMAGENET1K_V2"),
        ("tv:inception_v3", "tv:inception_v3 has auxiliary classifiers: use a timm tag"),
        ("tv:fcn_resnet50", "unknown model 'tv:fcn_resnet50'.*expected a classifier of torchvision"),
        ("tv:resnet50.IMAGENET1K_V1=/none.pth", "model file /none.pth does not exist"),
        ("tv:", "'tv:' is a family: use --model tv:NAME"),
    ],
)
def test_a_wrong_name_is_one_line(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        models.load(name)
    assert "\n" not in str(caught.value)


def test_weights_of_another_model_and_code_are_refused(network: nn.Module, tmp_path: Path) -> None:
    path = saved(network, tmp_path)
    with pytest.raises(UserError, match="weights do not fit 'tv:squeezenet1_1': missing: "):
        models.load(f"tv:squeezenet1_1={path}")
    torch.save({"state_dict": {}, "extra": hubs.Code(tmp_path / "mark")}, path)
    with pytest.raises(UserError, match="mine.pth: holds more than weights, and its code is not run"):
        models.load(f"{V1}={path}")
    assert not (tmp_path / "mark").exists()


def test_the_table_of_published_facts_agrees_with_the_packages() -> None:
    for row in published.table():
        if row.model.startswith("tv:"):
            weights: Any = torchvision.get_weight(f"{_enum(row.model)}")
            (size,) = weights.transforms().crop_size
            facts = weights.meta["_metrics"]["ImageNet-1K"]["acc@1"], len(weights.meta["categories"]), size
            assert (row.clean, row.classes, row.pixels) == facts, row.model
        elif ":" not in row.model:
            config: Any = timm.get_pretrained_cfg(row.model)
            assert (row.licence, row.classes, row.pixels) == (config.license, config.num_classes, config.input_size[1])
        if row.weights:
            assert row.weights.startswith("https://")


def _enum(model: str) -> str:
    name, _, weights = model.removeprefix("tv:").partition(".")
    return f"{torchvision.get_model_weights(name).__name__}.{weights}"
