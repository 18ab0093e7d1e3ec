"""What a researcher writes: a timm model, torch's DataLoader, a method, accuracy. One process, no harness.

    python -m benchmarks.plain_loop ROOT METHODS TASKS IMAGES

ROOT is a tree of benchmarks/against_plain_loop.py, which compares `tta-bench run` with this loop. The method objects
are the same. Like released scripts, it normalises in the data pipeline and decodes the images again for every method.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import timm
import torch
from safetensors.torch import load_file
from torch.utils.data import DataLoader, Subset
from torchvision.datasets import ImageFolder
from torchvision.transforms import CenterCrop, Compose, Normalize, ToTensor

from tta_bench import build_method

ARCHITECTURE, CLASSES, BATCH = "vit_tiny_patch16_224", 1000, 64


def main(root: Path, methods: list[str], tasks: list[str], images: int) -> None:
    model = timm.create_model(ARCHITECTURE)
    model.load_state_dict(load_file(root / "weights.safetensors"))
    view = Compose([CenterCrop(224), ToTensor(), Normalize((0.5,) * 3, (0.5,) * 3)])
    for task in tasks:
        data = ImageFolder(str(root / "ImageNet-C" / task / "5"), view)
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:images]
        for name in methods:
            method = build_method(name, copy.deepcopy(model), num_classes=CLASSES, batch_size=BATCH)
            hits = 0
            for batch, labels in DataLoader(Subset(data, order.tolist()), batch_size=BATCH):
                hits += int((method.adapt(batch).argmax(1) == labels).sum())
            print(f"{task} {name} {hits / len(order):.4f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3].split(","), int(sys.argv[4]))
