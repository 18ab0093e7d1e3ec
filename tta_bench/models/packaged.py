"""Source models of installed packages: entry points of the group `tta_bench.models`.

An entry point is a function without arguments that returns a `PackagedModel`. Importing and calling it should not
import torch: only `build` does, so that listing models, or a run with nothing left to do, is fast.

    def my_vit() -> PackagedModel:
        return PackagedModel(build=_build, mean=(0.5,) * 3, std=(0.5,) * 3, about="my ViT", files=(WEIGHTS,))

It may return a `Family` instead: models that share a prefix, as in `tv:resnet50`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench import plugins
from tta_bench.errors import UserError, third_party
from tta_bench.identity.code import code_hash
from tta_bench.plugins import Group

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class PackagedModel:
    """How to build a trained network, and what images it expects.

    Values that are None are read from the network, as from a timm model.
    """

    build: Callable[[], nn.Module]  # the network with its trained weights; every call returns a new one
    mean: tuple[float, ...] | None = None  # of the training images in [0, 1], by channel
    std: tuple[float, ...] | None = None
    about: str = ""
    num_classes: int | None = None
    input_size: int | None = None  # pixels, of a square
    interpolation: str | None = None
    clean: float | None = None  # accuracy on clean test images as published, in percent
    licence: str = ""
    files: tuple[Path, ...] = ()  # that hold the weights: the model is unchanged if these and the code are


@dataclass(frozen=True)
class Family:
    """Models that share a prefix: `tv:resnet50` is what `pick("resnet50")` of the family `tv` returns.

    `pick` uses no network and imports no torch; `build` of what it returns may do both.
    """

    pick: Callable[[str], PackagedModel]
    usage: str  # what --model takes, as in "tv:NAME"
    about: str


@cache
def installed() -> Group:
    """The models of this Python environment; read once, imports none of them."""
    return Group("model", plugins.claims("model"))


def owns(name: str) -> bool:
    """Whether a name names an installed model, or starts with the prefix of an installed family."""
    return _entry_name(name) in installed().claims


def code(name: str) -> str:
    """A hash of the code behind a model: `build` may change while the weights do not.

    Empty for the models included in tta-bench: the harness builds them.
    """
    module = installed().entry(_entry_name(name)).module
    is_own = module.partition(".")[0] == "tta_bench"
    return "" if is_own and ":" not in name else code_hash(module, installed().packages())


def describe(name: str) -> PackagedModel:
    """The model behind a name, not built yet; any exception becomes a one-line UserError."""
    found, (prefix, colon, rest) = entry(_entry_name(name)), name.partition(":")
    if isinstance(found, PackagedModel):
        if colon:
            raise UserError(f"model '{prefix}' is not a family: use --model {prefix}")
        return found
    if not rest:
        raise UserError(f"'{name}' is a family: use --model {found.usage}")
    with third_party(f"model '{name}' of {owner(name)} cannot be described"):
        picked = found.pick(rest)
    _require_described(name, picked, PackagedModel)
    return picked


def entry(name: str) -> PackagedModel | Family:
    """What the entry point of this name describes."""
    with third_party(f"model '{name}' of {owner(name)} cannot be described"):
        found: PackagedModel | Family = installed().load_object(name)()
    _require_described(name, found, (PackagedModel, Family))
    return found


def owner(name: str) -> str:
    """The package that provides a model."""
    return installed().owner(_entry_name(name))


def _require_described(name: str, found: object, kind: type | tuple[type, ...]) -> None:
    if not isinstance(found, kind):
        raise UserError(f"model '{name}' of {owner(name)}: expected a PackagedModel, got {type(found).__name__}")


def _entry_name(name: str) -> str:
    return name.partition(":")[0]
