"""Trains source models: `tta-bench train-source digits`, `tta-bench train-source office-home --domain Art`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from tta_bench.data.images import ImageSet
from tta_bench.data.loading import batches, default_workers
from tta_bench.errors import UserError
from tta_bench.files import open_whole, refuse_unwritable
from tta_bench.models import checkpoint
from tta_bench.models.source import Normalise
from tta_bench.streams.stream import digest

Progress = Callable[[int, int, float], None]  # epochs done, total epochs, loss
Loss = Callable[[Tensor, Tensor], Tensor]  # of logits and labels
Fresh = Callable[[int], ImageSet]  # other images in every epoch


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: on a one-cycle cosine schedule, with slightly moved images."""

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float = 0.05
    optimizer: Literal["adamw", "sgd"] = "adamw"  # SGD with Nesterov momentum 0.9
    turn: float = 12.0  # degrees
    flip: bool = False
    jitter: bool = True  # False: images as they are, or moved by whole pixels if `crop` says so
    crop: int = 0  # move each image by up to this many pixels, as CIFAR networks are trained
    bf16: bool = False  # convolutions and matrix products in bfloat16: twice as fast on CPUs that have it
    seed: int = 0


@dataclass(frozen=True)
class Target:
    """Where a training runs, and where its model goes."""

    out: Path
    device: torch.device
    progress: Progress
    fresh: bool = False  # start over; discards an interrupted training


def fit(
    note: checkpoint.ModelNote,
    train: ImageSet | Fresh,
    test: ImageSet,
    recipe: Recipe,
    target: Target,
    *,
    command: str,
    model: nn.Module | None = None,
    loss: Loss = F.cross_entropy,
) -> float:
    """Train, save model and note atomically, and return accuracy on `test`.

    Resumes an interrupted training; refuses another model's at the same path, unless `fresh`.
    """
    out, device = target.out, target.device
    refuse_bad_output(out)
    resume = out.with_suffix(".resume")
    if model is None:
        with torch.random.fork_rng(devices=[]):  # timm draws its initial weights from the global generator
            torch.manual_seed(recipe.seed)
            model = checkpoint.build(note)
    model.to(device)
    if target.fresh:
        resume.unlink(missing_ok=True)
    images = train if callable(train) else lambda epoch: train
    _train(model, note, images, recipe, resume, device, command, loss, target.progress)
    accuracy = evaluate(model, note, test, device)
    made_by = {
        "command": command,
        "seed": recipe.seed,
        "clean_test_accuracy": round(accuracy, 4),
        "torch": torch.__version__,
    }
    checkpoint.save(model, replace(note, made_by=made_by), out)
    resume.unlink(missing_ok=True)
    return accuracy


def refuse_bad_output(out: Path) -> None:
    """Refuse an unwritable path before the first epoch, not after the last. Creates the folder."""
    if out.suffix != ".safetensors":
        raise UserError(f"--out {out}: expected a name that ends in .safetensors")
    refuse_unwritable(out)


def _train(
    model: nn.Module,
    note: checkpoint.ModelNote,
    train: Fresh,
    recipe: Recipe,
    resume: Path,
    device: torch.device,
    command: str,
    loss_of: Loss,
    progress: Progress,
) -> None:
    normalise = Normalise(tuple(note.mean), tuple(note.std))
    first = train(0)
    generator = torch.Generator().manual_seed(recipe.seed)
    optimizer = _optimizer(model, recipe)
    steps = recipe.epochs * math.ceil(len(first.ids) / recipe.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=recipe.lr, total_steps=steps, pct_start=0.1)
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    training = _training(model, note, first, recipe)
    for epoch in range(_resume(resume, training, parts, generator), recipe.epochs):
        model.train()
        images = train(epoch)
        for labels, batch in labelled(images, shuffled(images, recipe.batch_size, generator), device):
            (inputs,) = normalise(model, (_moved(batch, recipe, generator),))
            with torch.autocast(device.type, torch.bfloat16, enabled=recipe.bf16):
                logits = model(inputs)
            loss = loss_of(logits.float(), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        state = {name: part.state_dict() for name, part in parts.items()}
        state |= {"training": training, "command": command, "epoch": epoch + 1, "generator": generator.get_state()}
        _keep(resume, state)
        progress(epoch + 1, recipe.epochs, loss.item())


def _optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    weights, lr, decay = model.parameters(), recipe.lr, recipe.weight_decay
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(weights, lr, momentum=0.9, nesterov=True, weight_decay=decay)
    return torch.optim.AdamW(weights, lr, weight_decay=decay)


def _moved(batch: Tensor, recipe: Recipe, generator: torch.Generator) -> Tensor:
    if recipe.jitter:
        return jitter(batch, generator, recipe.turn, recipe.flip)
    return shift(batch, generator, recipe.crop, recipe.flip) if recipe.crop else batch


def _training(model: nn.Module, note: checkpoint.ModelNote, train: ImageSet, recipe: Recipe) -> dict[str, str]:
    """Everything that determines the result of a training, by user-facing names; computed before its first step."""
    return {
        **{key: repr(value) for key, value in asdict(recipe).items()},
        "architecture": repr(note.architecture),
        "mean and std": repr((note.mean, note.std)),
        "initial weights": checkpoint.weights_hash(model.state_dict()),
        "images": digest(train.ids),
    }


def _keep(path: Path, state: dict[str, Any]) -> None:
    with open_whole(path) as file:
        torch.save(state, file)


def _resume(path: Path, training: dict[str, str], parts: dict[str, Any], generator: torch.Generator) -> int:
    """Resume an interrupted training, if it is this one; returns the number of finished epochs."""
    if not path.exists():
        return 0
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
        before, command = dict(state["training"]), state["command"]
    except Exception as error:  # torch raises many kinds on broken files
        raise UserError(f"{path}: not a readable state of an interrupted training: --fresh starts over") from error
    other = [name for name in training if before.get(name) != training[name]]
    if other:  # it may hold hours of work
        raise UserError(
            f"{path} holds another training, `{command}`, stopped after epoch {state['epoch']}; it differs in "
            f"{', '.join(other)}: repeat that command with this --out to resume it, choose another --out, or "
            f"discard it with --fresh"
        )
    for name, part in parts.items():
        part.load_state_dict(state[name])
    generator.set_state(state["generator"])
    return int(state["epoch"])


def shuffled(images: ImageSet, batch_size: int, generator: torch.Generator) -> list[NDArray[np.int64]]:
    """The positions of all images in a new order, as batches."""
    order = torch.randperm(len(images.ids), generator=generator).split(batch_size)
    return [positions.numpy() for positions in order]


def labelled(images: ImageSet, order: list[NDArray[np.int64]], device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Labels and images of each batch, on the device."""
    labels = np.asarray(images.labels)
    with closing(batches(images, order, device, workers=default_workers(images))) as stream:
        for positions, batch in zip(order, stream, strict=True):
            yield torch.from_numpy(labels[positions]).to(device), batch


def evaluate(model: nn.Module, note: checkpoint.ModelNote, test: ImageSet, device: torch.device) -> float:
    """Top-1 accuracy of a model in [0, 1]."""
    model.eval()
    normalise = Normalise(tuple(note.mean), tuple(note.std))
    return accuracy_of(lambda images: model(*normalise(model, (images,))), test, device)


@torch.no_grad()
def accuracy_of(predict: Callable[[Tensor], Tensor], test: ImageSet, device: torch.device) -> float:
    """Top-1 accuracy of a function that gives logits, in [0, 1]."""
    order = np.split(np.arange(len(test.ids)), range(128, len(test.ids), 128))
    hits = sum(int((predict(images).argmax(1) == labels).sum()) for labels, images in labelled(test, order, device))
    return hits / len(test.ids)


def shift(images: Tensor, generator: torch.Generator, most: int, flip: bool = False) -> Tensor:
    """Move each image by up to `most` whole pixels, with a grey border, and perhaps flip it."""
    count, _, height, width = images.shape
    padded = F.pad(images, (most,) * 4, value=0.5)
    across, down = torch.randint(0, 2 * most + 1, (2, count, 1), generator=generator).to(images.device)
    columns = across + torch.arange(width, device=images.device)
    if flip:
        mirrored = torch.rand(count, 1, generator=generator).to(images.device) > 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    rows = down + torch.arange(height, device=images.device)
    each = torch.arange(count, device=images.device)[:, None, None]
    # Channels last: bfloat16 convolutions on a CPU are faster on this layout.
    return padded.permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def jitter(images: Tensor, generator: torch.Generator, turn: float = 12.0, flip: bool = False) -> Tensor:
    """Rotate, scale, move and perhaps flip each image: geometry only, so that no corruption is trained on."""
    draw = (torch.rand(4, len(images), generator=generator) * 2 - 1).to(images.device)
    angle, scale = draw[0] * math.radians(turn), 1 + 0.1 * draw[1]
    mirror = torch.ones_like(angle)
    if flip:
        mirror -= 2 * (torch.rand(len(images), generator=generator) > 0.5).to(mirror)
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    shift = 0.16 * draw[2:4]
    theta = torch.stack(
        [torch.stack([mirror * cos, -sin, shift[0]], 1), torch.stack([mirror * sin, cos, shift[1]], 1)], 1
    )
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False, padding_mode="border")
