"""Trains a deep, narrow ViT in stages: a shallow one first, then with every block doubled, and so on.

Twelve blocks of 64 channels learn slowly from scratch. Three blocks learn in a minute, and the doubled model starts
from what they have learned.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from tta_bench.data.images import ImageSet
from tta_bench.errors import UserError
from tta_bench.models import checkpoint
from tta_bench.models.train import Loss, Recipe, Target, fit


@dataclass(frozen=True)
class Stage:
    """A depth, its share of all epochs, and its learning rate as a multiple of the recipe's."""

    blocks: int
    share: float
    rate: float


def fit_stacked(
    note: checkpoint.ModelNote,
    stages: tuple[Stage, ...],
    train: Callable[[int, int], ImageSet],
    test: ImageSet,
    recipe: Recipe,
    target: Target,
    *,
    command: str,
    loss: Loss,
) -> float:
    """Train stage after stage on `train(blocks, epoch)`, save the last, and return its accuracy on `test`.

    Resumes an interrupted training, as `fit` does: finished stages are kept beside `out` until the end.
    """
    if recipe.epochs < len(stages):
        raise UserError(f"--epochs {recipe.epochs}: this model is trained in {len(stages)} stages of an epoch or more")
    out = target.out
    epochs = [max(1, round(stage.share * recipe.epochs)) for stage in stages[:-1]]
    epochs.append(recipe.epochs - sum(epochs))
    model, accuracy = None, 0.0
    parts = [out.with_suffix(f".{stage.blocks}.safetensors") for stage in stages[:-1]]
    for number, (stage, path) in enumerate(zip(stages, [*parts, out], strict=True)):

        def progress(done: int, total: int, loss: float, before: int = sum(epochs[:number])) -> None:
            target.progress(before + done, sum(epochs), loss)

        kept = None if target.fresh or path == out else _finished(path, command)
        if kept is None:
            accuracy = fit(
                replace(note, architecture={**note.architecture, "depth": stage.blocks}),
                partial(train, stage.blocks),
                test,
                replace(recipe, epochs=epochs[number], lr=stage.rate * recipe.lr),
                replace(target, out=path, progress=progress),
                command=command,
                loss=loss,
                model=None if model is None else doubled(model),
            )
            kept = None if path == out else _finished(path, command)
        model = kept
    for path in parts:
        path.unlink(missing_ok=True)
    return accuracy


def doubled(network: nn.Module) -> nn.Module:
    """A ViT with each block twice in a row, each of the two adding half of the original's output."""
    deep: Any = copy.deepcopy(network)
    for block in deep.blocks:
        for layer in (block.attn.proj, block.mlp.fc2):
            for tensor in layer.parameters():
                tensor.data.mul_(0.5)
    deep.blocks = nn.Sequential(*(copy.deepcopy(block) for block in deep.blocks for _ in range(2)))
    whole: nn.Module = deep
    return whole


def _finished(path: Path, command: str) -> nn.Module | None:
    """The model of a stage, if this training has finished it."""
    if not path.exists():
        return None
    network, note = checkpoint.restore(path)
    return network if note.made_by.get("command") == command else None
