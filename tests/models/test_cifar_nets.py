"""RobustBench's CIFAR networks: published files fit, the normalisation is theirs, methods adapt or say why not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support import hubs
from tests.support.small import stir
from tta_bench import registry
from tta_bench.errors import UserError
from tta_bench.models import names
from tta_bench.models import source as models
from tta_bench.models.cifar_nets import ResNeXt, WideResNet
from tta_bench.testing import check_promises

CPU = torch.device("cpu")


def batchnorm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.{key}": (width,) for key in ("weight", "bias", "running_mean", "running_var")}


def published_wrn(depth: int, width: int, classes: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes in RobustBench's files, written down apart from our network."""
    layout: dict[str, tuple[int, ...]] = {"conv1.weight": (16, 3, 3, 3)}
    before = 16
    for stage, after in enumerate((16 * width, 32 * width, 64 * width), 1):
        for block in range((depth - 4) // 6):
            place = f"block{stage}.layer.{block}"
            layout |= batchnorm(f"{place}.bn1", before) | batchnorm(f"{place}.bn2", after)
            layout[f"{place}.conv1.weight"] = (after, before, 3, 3)
            layout[f"{place}.conv2.weight"] = (after, after, 3, 3)
            if before != after:
                layout[f"{place}.convShortcut.weight"] = (after, before, 1, 1)
            before = after
    return layout | batchnorm("bn1", before) | {"fc.weight": (classes, before), "fc.bias": (classes,)}


def published_resnext(classes: int) -> dict[str, tuple[int, ...]]:
    """The same for ResNeXt-29 with 4 groups of 32 channels."""
    layout: dict[str, tuple[int, ...]] = {"conv_1_3x3.weight": (64, 3, 3, 3)} | batchnorm("bn_1", 64)
    before = 64
    for stage, (inner, after) in enumerate(((128, 256), (256, 512), (512, 1024)), 1):
        for block in range(3):
            place = f"stage_{stage}.{block}"
            layout[f"{place}.conv_reduce.weight"] = (inner, before, 1, 1)
            layout[f"{place}.conv_conv.weight"] = (inner, inner // 4, 3, 3)
            layout[f"{place}.conv_expand.weight"] = (after, inner, 1, 1)
            layout |= batchnorm(f"{place}.bn_reduce", inner) | batchnorm(f"{place}.bn", inner)
            layout |= batchnorm(f"{place}.bn_expand", after)
            if block == 0:
                layout[f"{place}.downsample.0.weight"] = (after, before, 1, 1)
                layout |= batchnorm(f"{place}.downsample.1", after)
            before = after
    return layout | {"classifier.weight": (classes, 1024), "classifier.bias": (classes,)}


LAYOUTS = {
    "Standard": published_wrn(28, 10, 10),
    "Hendrycks2020AugMix_WRN": published_wrn(40, 2, 100),
    "Hendrycks2020AugMix_ResNeXt": published_resnext(100),
}


def drawn(layout: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: 0.02 * torch.rand(shape, generator=generator) + 0.01 for name, shape in layout.items()}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_published_layout_fits(name: str) -> None:
    make: dict[str, Any] = {
        "Standard": partial(WideResNet, 28, 10),
        "Hendrycks2020AugMix_WRN": partial(WideResNet, 40, 2, 100),
        "Hendrycks2020AugMix_ResNeXt": partial(ResNeXt, num_classes=100),
    }
    with torch.device("meta"):
        network: nn.Module = make[name]()
    ours = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items() if "num_batches" not in key}
    assert ours == LAYOUTS[name]
    if name == "Standard":
        assert sum(parameter.numel() for parameter in network.parameters()) == 36_479_194  # as its users count


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize(
    ("name", "mean", "std"), [("Hendrycks2020AugMix_WRN", 0.5, 0.5), ("Hendrycks2020AugMix_ResNeXt", 0.5, 0.5)]
)
def test_a_published_file_is_loaded(name: str, mean: float, std: float, wrapped: bool, tmp_path: Path) -> None:
    state = drawn(LAYOUTS[name])
    saved = {f"module.{key}": tensor for key, tensor in state.items()}
    path = tmp_path / "model.pt.tar"
    torch.save({"epoch": 3, "state_dict": saved, "best_acc": 0.9} if wrapped else saved, path)
    found = models.load(f"robustbench:{name}={path}")
    assert (found.name, found.num_classes, found.input_size) == (f"robustbench:{name}", 100, 32)
    assert (found.mean, found.std) == ((mean,) * 3, (std,) * 3)
    assert found.code
    assert str(path) in str(names.stamp(f"robustbench:{name}={path}"))
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(found.fresh(CPU)(images), found.network((images - mean) / std))
        assert found.fresh(CPU, (0, 5))(images).shape == (2, 2)


def test_a_wide_block_computes_what_its_paper_says() -> None:
    """Written once more with functions: the shortcut of a wider block starts after the first BatchNorm and ReLU."""
    network = WideResNet(10, 1).eval()
    stir(network)
    images = torch.rand(2, 3, 32, 32)
    w = network.state_dict()

    def norm(x: Tensor, name: str) -> Tensor:
        parts = [w[f"{name}.{key}"] for key in ("running_mean", "running_var", "weight", "bias")]
        return F.relu(F.batch_norm(x, *parts))

    with torch.no_grad():
        x = F.conv2d(images, w["conv1.weight"], padding=1)
        for stage, stride in ((1, 1), (2, 2), (3, 2)):
            place = f"block{stage}.layer.0"
            start = norm(x, f"{place}.bn1")
            out = norm(F.conv2d(start, w[f"{place}.conv1.weight"], stride=stride, padding=1), f"{place}.bn2")
            side = x if stage == 1 else F.conv2d(start, w[f"{place}.convShortcut.weight"], stride=stride)
            x = side + F.conv2d(out, w[f"{place}.conv2.weight"], padding=1)
        expected = F.linear(F.avg_pool2d(norm(x, "bn1"), 8).flatten(1), w["fc.weight"], w["fc.bias"])
        torch.testing.assert_close(network(images), expected)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mu": torch.full((1, 3, 1, 1), 0.5), "sigma": torch.full((1, 3, 1, 1), 0.5)}, None),
        ({"mu": torch.full((1, 3, 1, 1), 0.4)}, r"model.pt: mu is \[0.4.*\], expected 0.5 for each channel"),
        ({"sub_block1.layer.0.bn1.weight": torch.ones(16)}, "weights do not fit .*unexpected: sub_block1"),
        ({"conv1.weight": torch.ones(64, 3, 7, 7)}, r"size mismatch: conv1.weight \(64, 3, 7, 7\) where the model"),
    ],
)
def test_a_file_of_another_model_is_refused(change: dict[str, Tensor], said: str | None, tmp_path: Path) -> None:
    torch.save({**drawn(LAYOUTS["Hendrycks2020AugMix_WRN"]), **change}, tmp_path / "model.pt")
    name = f"robustbench:Hendrycks2020AugMix_WRN={tmp_path / 'model.pt'}"
    if said is None:
        assert models.load(name).num_classes == 100
        return
    with pytest.raises(UserError, match=said) as caught:
        models.load(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("robustbench:Standrd=x.pt", "unknown model 'robustbench:Standrd'; did you mean 'Standard'"),
        (
            "robustbench:Standard",
            r"needs its checkpoint: download it from https://\S+ \(CIFAR-10\), .*Standard=FILE",
        ),
        ("robustbench:Standard=/none.pt", "model file /none.pt does not exist"),
    ],
)
def test_a_wrong_name_is_one_line(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        models.load(name)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "optimizer": hubs.Code(tmp_path / "mark")}, tmp_path / "evil.pt")
    with pytest.raises(UserError, match="evil.pt: holds more than weights, and its code is not run"):
        models.load(f"robustbench:Standard={tmp_path / 'evil.pt'}")
    assert not (tmp_path / "mark").exists()


# Methods


def small(make: type[nn.Module], **sizes: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = make(**sizes)
        stir(network)
    return network.eval()


REFUSE = {
    "dpal": "needs a timm VisionTransformer, WideResNet is none",
    "dpal-official": "needs a timm VisionTransformer, WideResNet is none",
    "foa": "needs a timm VisionTransformer, WideResNet is none",
    "dept-g": "needs prompts that were trained with the source model",
}
UNKNOWN_STAGES = ("sar", "deyo")  # the authors freeze a ResNet's last stage, by name; they work with frozen_blocks: []


QUICK = ("tent", "bn-test", "foa")
OTHERS = [name for name in registry.installed().names() if name not in ("dda", *QUICK)]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_every_method_adapts_a_batchnorm_network_or_says_why_not(name: str) -> None:
    model = partial(small, WideResNet, depth=10, width=1)
    settings: dict[str, Any] = {"memo": {"augmentations": 4}}.get(name, {})  # 64 take minutes
    settings |= {"frozen_blocks": []} if name in UNKNOWN_STAGES else {}
    promises = dict(check_promises(name, model=model, **settings))
    broken = [complaint for complaint in promises.values() if complaint is not None]
    if name not in REFUSE:
        assert broken == []
        return
    (complaint,) = broken
    assert REFUSE[name] in complaint
    assert "\n" not in complaint


@pytest.mark.parametrize("name", UNKNOWN_STAGES)
def test_methods_that_freeze_stages_ask_which(name: str) -> None:
    first = next(iter(check_promises(name, model=partial(small, WideResNet, depth=10, width=1))))
    assert "set frozen_blocks to an empty list" in str(first[1])
