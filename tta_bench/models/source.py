"""Source models by name: a packaged model, your own file, or a timm tag with or without a file.

The model normalises its input itself, so methods and streams do not need mean and std. If only some of its classes can
occur, it returns the logits of those only, so no method needs to know about a mask.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tta_bench.errors import UserError, third_party
from tta_bench.models import checkpoint, packaged, weights
from tta_bench.models.names import SUFFIXES, without_path
from tta_bench.models.packaged import PackagedModel


@dataclass(frozen=True)
class SourceModel:
    """A trained model that is never adapted itself: every cell gets a fresh copy."""

    name: str
    network: nn.Module
    num_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    weights_hash: str
    input_size: int = 224
    interpolation: str = "bicubic"
    architecture: dict[str, Any] = field(default_factory=dict)  # as in a checkpoint's note; empty for a packaged model
    code: str = ""  # hash of the package's code that builds it

    def fresh(
        self, device: torch.device, class_mask: Sequence[int] | None = None, *, shares_weights: bool = False
    ) -> nn.Module:
        """A copy on the device that takes images in [0, 1] and returns logits of the mask's classes, in its order.

        With `shares_weights` it uses this model's memory if possible, and must not be adapted.
        """
        shared = self.network.parameters() if shares_weights else ()
        same = {id(p): nn.Parameter(p.data, p.requires_grad) for p in shared}
        network = copy.deepcopy(self.network, same).to(device)
        if self.mean:  # else it normalises its input itself
            entrance(network).register_forward_pre_hook(Normalise(self.mean, self.std))
        if class_mask is not None:
            keep_classes(network, class_mask)
        return network


class Normalise:
    """A forward pre-hook that normalises images: parameter names and the model's class stay unchanged."""

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


def keep_classes(network: nn.Module, mask: Sequence[int]) -> None:
    """Reduce the classifier to some classes.

    The same as selecting columns of its logits, in values and in gradients, but also valid for methods that read the
    classifier's weights.
    """
    linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
    ask: Any = getattr(network, "get_classifier", lambda: linear[-1] if linear else None)  # timm's models know it
    head = ask()
    if not isinstance(head, nn.Linear):
        raise UserError(f"{type(network).__name__}: only a linear classifier can be reduced to {len(mask)} classes")
    if max(mask) >= head.out_features:
        raise UserError(f"the class mask has class {max(mask)}, but the model has only {head.out_features} classes")
    rows = torch.tensor(mask, device=head.weight.device)
    for name, parameter in list(head.named_parameters()):
        kept = nn.Parameter(parameter.detach()[rows], requires_grad=parameter.requires_grad)
        setattr(head, name, kept)
    head.out_features = len(mask)
    network.num_classes = len(mask)  # type: ignore[assignment]


def load(name: str) -> SourceModel:
    """Load a model by its name or file; UserError with what to do if that fails.

    The name is a packaged model (`digits-vit`), a timm tag, a checkpoint of `train-source`, or TAG=FILE: a timm
    model with the weights of a .safetensors, .pth, .bin or AugReg .npz file. A prefix names a family of models, as in
    `hf_hub:owner/name`.
    """
    if packaged.owns(name):
        return _from_package(name)
    architecture, has_file, file = name.partition("=")
    if has_file:
        return _from_timm(architecture, weights.from_file(architecture, Path(file).expanduser()))
    if name.endswith(SUFFIXES):
        return _from_own_file(Path(name).expanduser())
    return _from_timm(name, weights.from_hub(name))


def refuse_ambiguous(name: str) -> None:
    """Refuse a timm name without its tag, for which timm picks weights that may change: a paper's table needs a tag."""
    import timm

    if packaged.owns(name) or "=" in name or "." in name or not timm.is_model(name):
        return
    config: Any = timm.get_pretrained_cfg(name)
    now = config.tag
    tags = [found for found in timm.list_pretrained(f"{name}.*") if found.endswith(".augreg_in21k_ft_in1k")]
    wanted = tags[0] if tags else f"{name}.{now}"
    raise UserError(f"model '{name}' does not name its weights: timm now loads '{now}' for it; use --model {wanted}")


def _from_package(name: str) -> SourceModel:
    """A model behind an entry point; any exception becomes a one-line UserError."""
    described, owner = packaged.describe(name), packaged.owner(name)
    with third_party(f"model '{name}' of {owner} cannot be built"):
        network = described.build()
    if not isinstance(network, nn.Module):
        raise UserError(f"model '{name}' of {owner}: build() returned {type(network).__name__}, expected an nn.Module")
    if not isinstance(described.num_classes or getattr(network, "num_classes", None), int):
        raise UserError(f"model '{name}' of {owner}: its network has no num_classes: state it in the PackagedModel")
    return _ready(name, network, described)


def _from_own_file(path: Path) -> SourceModel:
    weights.refuse_unreadable(path)
    hint = f"name its timm model: --model vit_base_patch16_224.augreg_in21k_ft_in1k={path}"
    if path.suffix != ".safetensors":
        raise UserError(f"{path}: holds weights but no architecture; {hint}")
    try:
        network, note = checkpoint.restore(path)
    except checkpoint.NoNote as error:
        raise UserError(f"{error}; {hint}") from error
    return _ready(path.name, network, note)  # its folder changes no result, so it is not part of the name


def _from_timm(name: str, network: nn.Module) -> SourceModel:
    config = _data_config(network)
    return _ready(name, network, checkpoint.ModelNote({"timm": name}, tuple(config["mean"]), tuple(config["std"])))


def _ready(name: str, network: nn.Module, about: checkpoint.ModelNote | PackagedModel) -> SourceModel:
    """A model for cells; values that its author does not state are read from the network, as from a timm model."""
    network.eval().requires_grad_(False)
    stated = about if isinstance(about, PackagedModel) else None
    any_network: Any = network
    config = _data_config(network)
    patches: Any = getattr(network, "patch_embed", None)
    size = getattr(patches, "img_size", None) or config["input_size"][1:]  # a ViT knows its input size
    return SourceModel(
        without_path(name) if stated else name,
        network,
        (stated and stated.num_classes) or any_network.num_classes,
        about.mean or tuple(config["mean"]),
        about.std or tuple(config["std"]),
        checkpoint.weights_hash(network.state_dict()),
        input_size=(stated and stated.input_size) or int(size[0]),
        interpolation=(stated and stated.interpolation) or config["interpolation"],
        architecture=about.architecture if isinstance(about, checkpoint.ModelNote) else {},
        code=packaged.code(name) if stated else "",
    )


def _data_config(network: nn.Module) -> dict[str, Any]:
    from timm.data import config

    resolve: Any = config.resolve_model_data_config  # has no annotations
    found: dict[str, Any] = resolve(network)
    return found
