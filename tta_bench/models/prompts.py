"""Trains prompts for a method that needs some made with the source model: `tta-bench train-source digits --prompts`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from tta_bench import registry
from tta_bench.data.images import ImageSet
from tta_bench.errors import UserError
from tta_bench.files import write_whole
from tta_bench.models.source import SourceModel
from tta_bench.models.train import Fresh, Target, accuracy_of, labelled, refuse_bad_output, shuffled

HEADER = "tta_bench_prompts"


class PromptTraining(Protocol):
    """What a method's `prompt_training` returns: prompts that learn from labelled source images."""

    def step(self, images: Tensor, labels: Tensor) -> float:
        """Learn from one batch; returns its loss."""

    def predict(self, images: Tensor) -> Tensor:
        """Logits of the model with the prompts."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to save, which the method loads again."""


def trainers() -> dict[str, Callable[..., PromptTraining]]:
    """Installed methods that can train prompts, by name."""
    found = {name: getattr(_class(name), "prompt_training", None) for name in registry.installed().names()}
    return {name: make for name, make in found.items() if make is not None}


def choose(asked: str) -> str:
    """The method to train prompts for: the given one, or the only one."""
    known = sorted(trainers())
    if asked in known or (not asked and len(known) == 1):
        return asked or known[0]
    names = ", ".join(known) or "none is installed"
    raise UserError(f"--prompts {asked}: expected a method that trains prompts: {names}")


def train_prompts(
    method: str,
    source: SourceModel,
    train: Fresh,
    test: ImageSet,
    target: Target,
    *,
    epochs: int,
    batch_size: int,
    seed: int,
    command: str,
) -> float:
    """Train prompts with a frozen source model, save them, and return accuracy on `test`."""
    refuse_bad_output(target.out)
    device = target.device
    steps = epochs * math.ceil(len(train(0).ids) / batch_size)
    training = trainers()[method](source.fresh(device), num_classes=source.num_classes, steps=steps, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        images = train(epoch)
        for labels, batch in labelled(images, shuffled(images, batch_size, generator), device):
            loss = training.step(batch, labels)
        target.progress(epoch + 1, epochs, loss)
    accuracy = accuracy_of(training.predict, test, device)
    note = {"method": method, "model": source.name, "weights": source.weights_hash, "command": command}
    _save(training.tensors(), {**note, "accuracy": round(accuracy, 4)}, target.out)
    return accuracy


def _class(name: str) -> Any:
    try:
        return registry.installed().load(name)
    except UserError:  # not this method's problem
        return None


def _save(tensors: dict[str, Tensor], note: dict[str, Any], out: Path) -> None:
    from safetensors.torch import save

    plain = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_whole(out, save(plain, {HEADER: json.dumps(note)}))
