"""Source models of installed packages: entry points of the group `tta_bench.models`.

An entry point is a function without arguments that returns a `PackagedModel`. Importing and calling it should not
import torch: only `build` does, so that listing models, or a run with nothing left to do, is fast.

    def my_vit() -> PackagedModel:
        return PackagedModel(build=_build, mean=(0.5,) * 3, std=(0.5,) * 3, about="my ViT", files=(WEIGHTS,))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench import plugins
from tta_bench.errors import UserError
from tta_bench.identity import code_hash
from tta_bench.plugins import Group

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class PackagedModel:
    """How to build a trained network, and what images it expects.

    Values that are None are read from the network, as from a timm model.
    """

    build: Callable[[], nn.Module]  # the network with its trained weights; every call returns a new one
    mean: tuple[float, ...]  # of the training images in [0, 1], by channel
    std: tuple[float, ...]
    about: str = ""
    num_classes: int | None = None
    input_size: int | None = None  # pixels, of a square
    interpolation: str | None = None
    files: tuple[Path, ...] = ()  # that hold the weights: the model is unchanged if these and the code are


@cache
def installed() -> Group:
    """The models of this Python environment; read once, imports none of them."""
    return Group("model", plugins.claims("model"))


def code(name: str) -> str:
    """A hash of the code behind a model: `build` may change while the weights do not.

    Empty for tta-bench's own models, whose code is part of the harness.
    """
    module = installed().entry(name).module
    return "" if module.partition(".")[0] == "tta_bench" else code_hash(module, installed().packages())


def describe(name: str) -> PackagedModel:
    """The model behind a name, not built yet; any exception becomes a one-line UserError."""
    make, owner = installed().load_object(name), installed().owner(name)
    try:
        found = make()
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # third-party code may raise anything
        raise UserError(f"model '{name}' of {owner} cannot be described: {plugins.one_line(error)}") from error
    if not isinstance(found, PackagedModel):
        raise UserError(f"model '{name}' of {owner}: expected a PackagedModel, got {type(found).__name__}")
    return found
