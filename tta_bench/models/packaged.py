"""Source models that packages bring: entry points of the group `tta_bench.models`.

Behind a name is a function without arguments that returns a `PackagedModel`. Importing and calling it should not
import torch: only `build` does, so that models can be listed, and a run with nothing left to do can end, in no time.

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
    """How to get a trained network, and how it wants its images.

    What is None is asked of the network, as every timm model can tell it.
    """

    build: Callable[[], nn.Module]  # the network with its trained weights; every call gives a new one
    mean: tuple[float, ...]  # of the training images in [0, 1], by channel
    std: tuple[float, ...]
    about: str = ""
    num_classes: int | None = None
    input_size: int | None = None  # pixels, of a square
    interpolation: str | None = None
    files: tuple[Path, ...] = ()  # that hold the weights: while they and the code stay, so does the model


@cache
def installed() -> Group:
    """The models of this Python environment; read once, imports none of them."""
    return Group("model", plugins.claims("model"))


def code(name: str) -> str:
    """A hash of the code behind a model: what `build` does may change while weights stay.

    Empty for tta-bench's own, whose code counts as the harness's.
    """
    module = installed().entry(name).module
    return "" if module.partition(".")[0] == "tta_bench" else code_hash(module, installed().packages())


def describe(name: str) -> PackagedModel:
    """The model behind a name, not built yet; whatever its package raises becomes one line."""
    make, owner = installed().load_object(name), installed().owner(name)
    try:
        found = make()
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # a stranger's function may raise anything
        raise UserError(f"model '{name}' of {owner} cannot be described: {plugins.one_line(error)}") from error
    if not isinstance(found, PackagedModel):
        raise UserError(f"model '{name}' of {owner}: expected a PackagedModel, got {type(found).__name__}")
    return found
