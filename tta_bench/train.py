"""Trains source models: `tta-bench train-source digits`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tta_bench import checkpoint, digits
from tta_bench.images import ImageSet

# 12 blocks, because SAR and DPAL leave blocks 9-11 alone; 64 wide, so that the file stays below 3 MB.
DIGITS_VIT = {
    "img_size": 32,
    "patch_size": 8,
    "num_classes": 10,
    "embed_dim": 64,
    "depth": 12,
    "num_heads": 4,
}
MEAN, STD = (0.4,) * 3, (0.15,) * 3  # about those of the train split

Progress = Callable[[int, int, float], None]


def train_digits(
    out: Path,
    *,
    seed: int = 0,
    epochs: int = 120,
    batch_size: int = 50,
    lr: float = 1e-3,
    weight_decay: float = 0.05,
    progress: Progress = lambda done, total, loss: None,
) -> float:
    """Train the digits ViT on the clean train split, save it, and return its clean test accuracy."""
    note = checkpoint.Note(architecture=DIGITS_VIT, mean=MEAN, std=STD)
    with torch.random.fork_rng(devices=[]):  # timm draws its initial weights from the global generator
        torch.manual_seed(seed)
        model = checkpoint.build(note)
    generator = torch.Generator().manual_seed(seed)
    images, labels = _tensors(digits.clean("train"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
    steps = epochs * math.ceil(len(images) / batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps, pct_start=0.1)

    model.train()
    for epoch in range(epochs):
        for chosen in torch.randperm(len(images), generator=generator).split(batch_size):
            batch = normalise(jitter(images[chosen], generator))
            loss = F.cross_entropy(model(batch), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        progress(epoch + 1, epochs, loss.item())

    accuracy = evaluate(model, digits.clean("test"))
    made_by = {
        "command": f"tta-bench train-source digits --seed {seed} --epochs {epochs}",
        "seed": seed,
        "clean_test_accuracy": round(accuracy, 4),
        "torch": torch.__version__,
    }
    checkpoint.save(model, checkpoint.Note(DIGITS_VIT, MEAN, STD, made_by), out)
    return accuracy


@torch.no_grad()
def evaluate(model: nn.Module, test: ImageSet, batch_size: int = 128) -> float:
    """Top-1 accuracy in [0, 1] on clean images."""
    model.eval()
    images, labels = _tensors(test)
    hits = [
        (model(normalise(x)).argmax(1) == y).sum().item()
        for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True)
    ]
    return float(sum(hits)) / len(labels)


def jitter(images: Tensor, generator: torch.Generator, turn: float = 12.0, shift: float = 0.08) -> Tensor:
    """Turn, scale and move each image a little: geometry only, so that no corruption is trained on."""
    n = len(images)
    draw = torch.rand(4, n, generator=generator) * 2 - 1
    angle, scale = draw[0] * math.radians(turn), 1 + 0.1 * draw[1]
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    theta = torch.stack(
        [torch.stack([cos, -sin, 2 * shift * draw[2]], 1), torch.stack([sin, cos, 2 * shift * draw[3]], 1)], 1
    )
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False, padding_mode="border")


def normalise(images: Tensor) -> Tensor:
    return (images - MEAN[0]) / STD[0]


def _tensors(images: ImageSet) -> tuple[Tensor, Tensor]:
    pixels = torch.from_numpy(images.read(np.arange(len(images.ids)))).float() / 255
    return pixels, torch.from_numpy(np.asarray(images.labels))
