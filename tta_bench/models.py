"""Source models by name: the embedded ViT, a checkpoint file of one's own, or a timm tag.

The model normalises its input itself, so methods and streams know nothing of mean and std.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tta_bench import checkpoint
from tta_bench.errors import UserError, did_you_mean

EMBEDDED = {"digits-vit": "digits_vit.safetensors"}


@dataclass(frozen=True)
class SourceModel:
    """A trained model that is never adapted itself: every cell takes a fresh copy."""

    name: str
    network: nn.Module
    num_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    weights_hash: str

    def fresh(self, device: torch.device) -> nn.Module:
        """A copy on the device that takes images in [0, 1]."""
        network = copy.deepcopy(self.network).to(device)
        entrance(network).register_forward_pre_hook(Normalise(self.mean, self.std))
        return network


class Normalise:
    """A forward pre-hook that normalises images: parameter names and the model's class stay as they are."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.mean = torch.tensor(mean).view(1, -1, 1, 1)
        self.std = torch.tensor(std).view(1, -1, 1, 1)

    def __call__(self, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        images, *rest = args
        if self.mean.device != images.device:
            self.mean, self.std = self.mean.to(images.device), self.std.to(images.device)
        return ((images - self.mean) / self.std, *rest)


def entrance(network: nn.Module) -> nn.Module:
    """The top-level child that sees the images first: `patch_embed` of a ViT, `conv1` of a ResNet."""
    for child in network.children():
        if any(isinstance(module, (nn.Conv2d, nn.Linear)) for module in child.modules()):
            return child
    raise UserError(f"{type(network).__name__} has no convolution or linear layer to put normalisation before")


def load(name: str) -> SourceModel:
    """A model by its name or file; what cannot be loaded is a UserError that says what to do."""
    if name in EMBEDDED:
        with resources.as_file(resources.files("tta_bench.checkpoints") / EMBEDDED[name]) as path:
            return _from_checkpoint(name, path)
    if name.endswith(".safetensors"):
        if not Path(name).is_file():
            raise UserError(f"model file {name} does not exist")
        return _from_checkpoint(name, Path(name))
    return _from_timm(name)


def _from_checkpoint(name: str, path: Path) -> SourceModel:
    weights, note = checkpoint.load(path)
    network = checkpoint.build(note)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{path}: weights do not fit the architecture in its header: {error}") from error
    return _ready(name, network, note.mean, note.std)


def _from_timm(name: str) -> SourceModel:
    import timm

    base = name.partition(".")[0]
    if not timm.is_model(base):
        near = did_you_mean(base, timm.list_models()).partition(" (known")[0]
        raise UserError(
            f"unknown model '{name}'{near} (embedded: {', '.join(EMBEDDED)}; or a timm tag; or a .safetensors file)"
        )
    try:
        network = timm.create_model(name, pretrained=True)
    except Exception as error:  # offline, no such tag, a damaged cache: timm and its hub raise many kinds
        raise UserError(
            f"weights of '{name}' cannot be loaded ({type(error).__name__}: {str(error).splitlines()[0]}): "
            f"check the tag and the network, or fill the Hugging Face cache (HF_HOME) on a machine that has both"
        ) from error
    config: Any = network.pretrained_cfg
    return _ready(name, network, config["mean"], config["std"])


def _ready(name: str, network: nn.Module, mean: Any, std: Any) -> SourceModel:
    network.eval().requires_grad_(False)
    num_classes: int = network.num_classes  # type: ignore[assignment]  # every timm model has it
    state_hash = checkpoint.weights_hash(network.state_dict())
    return SourceModel(name, network, num_classes, tuple(mean), tuple(std), state_hash)
