"""Trains prompts for a method that needs some made with the source model: `tta-bench train-source digits --prompts`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from tta_bench import registry
from tta_bench.data.images import ImageSet
from tta_bench.data.loading import batches, default_workers
from tta_bench.errors import UserError
from tta_bench.files import write_whole
from tta_bench.models.source import SourceModel
from tta_bench.models.train import Fresh, Progress, refuse_unfit

HEADER = "tta_bench_prompts"


class PromptTraining(Protocol):
    """What a method's `prompt_training` makes of a source model: prompts that learn from labelled source images."""

    def step(self, images: Tensor, labels: Tensor) -> float:
        """Learn from one batch; returns its loss."""

    def predict(self, images: Tensor) -> Tensor:
        """Logits of the model with the prompts."""

    def tensors(self) -> dict[str, Tensor]:
        """What the method reads again from the file."""


def trainers() -> dict[str, Callable[..., PromptTraining]]:
    """Installed methods that can train prompts, by name."""
    found = {name: getattr(_class(name), "prompt_training", None) for name in registry.installed().names()}
    return {name: make for name, make in found.items() if make is not None}


def choose(asked: str) -> str:
    """The method to train prompts for: the one that was asked for, or the only one."""
    there = sorted(trainers())
    if asked in there or (not asked and len(there) == 1):
        return asked or there[0]
    names = ", ".join(there) or "none is installed"
    raise UserError(f"--prompts {asked}: expected a method that trains prompts: {names}")


def train_prompts(
    method: str,
    source: SourceModel,
    train: Fresh,
    test: ImageSet,
    out: Path,
    *,
    epochs: int,
    batch_size: int,
    seed: int,
    device: torch.device,
    command: str,
    progress: Progress,
) -> float:
    """Train prompts with a source model that stays as it is, save them, and return accuracy on `test`."""
    refuse_unfit(out)
    steps = epochs * math.ceil(len(train(0).ids) / batch_size)
    training = trainers()[method](source.fresh(device), num_classes=source.num_classes, steps=steps, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        images = train(epoch)
        order = torch.randperm(len(images.ids), generator=generator).split(batch_size)
        for chosen, batch in _labelled(images, [part.numpy() for part in order], device):
            loss = training.step(batch, chosen)
        progress(epoch + 1, epochs, loss)
    accuracy = _accuracy(training, test, device)
    note = {"method": method, "model": source.name, "weights": source.weights_hash, "command": command}
    _save(training.tensors(), {**note, "accuracy": round(accuracy, 4)}, out)
    return accuracy


def _class(name: str) -> Any:
    try:
        return registry.installed().load(name)
    except UserError:  # another method's trouble
        return None


def _labelled(images: ImageSet, order: list[Any], device: torch.device) -> Any:
    labels = np.asarray(images.labels)
    with closing(batches(images, order, device, workers=default_workers(images))) as stream:
        for chosen, batch in zip(order, stream, strict=True):
            yield torch.from_numpy(labels[chosen]).to(device), batch


def _accuracy(training: PromptTraining, test: ImageSet, device: torch.device) -> float:
    positions = np.arange(len(test.ids))
    hits = 0
    for labels, images in _labelled(test, [positions[i : i + 128] for i in range(0, len(positions), 128)], device):
        hits += int((training.predict(images).argmax(1) == labels).sum())
    return hits / len(positions)


def _save(tensors: dict[str, Tensor], note: dict[str, Any], out: Path) -> None:
    from safetensors.torch import save

    plain = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_whole(out, save(plain, {HEADER: json.dumps(note)}))
