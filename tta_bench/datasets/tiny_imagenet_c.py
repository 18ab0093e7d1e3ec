"""Tiny-ImageNet-C: 64-pixel images of 200 classes, one corruption per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.datasets.corruption_tree import CorruptionTree
from tta_bench.datasets.listing import Classes, complaint
from tta_bench.errors import UserError

CLASSES = 200


class TinyImageNetC(CorruptionTree):
    """`<corruption>/<severity>/<wnid>/*.JPEG` in DATA_ROOT/Tiny-ImageNet-C, or the published tars in it.

    A label is the rank of its class among the sorted names, as torchvision's ImageFolder gives it.
    """

    layout = "Tiny-ImageNet-C/<corruption>/<severity>/<wnid>/*.JPEG (or Tiny-ImageNet-C/Tiny-ImageNet-C.tar)"
    bibtex = """@inproceedings{hendrycks2019corruptions,
        title = {Benchmarking Neural Network Robustness to Common Corruptions and Perturbations},
        author = {Hendrycks, Dan and Dietterich, Thomas},
        booktitle = {International Conference on Learning Representations},
        year = {2019},
    }
    @article{russakovsky2015imagenet,
        title = {ImageNet Large Scale Visual Recognition Challenge},
        author = {Russakovsky, Olga and Deng, Jia and Su, Hao and Krause, Jonathan and Satheesh, Sanjeev and Ma, Sean
            and Huang, Zhiheng and Karpathy, Andrej and Khosla, Aditya and Bernstein, Michael and Berg, Alexander C.
            and Fei-Fei, Li},
        journal = {International Journal of Computer Vision},
        year = {2015},
    }"""
    num_classes = CLASSES
    homes = ("Tiny-ImageNet-C",)
    parts: ClassVar[Mapping[str, Sequence[str]]] = {
        "Tiny-ImageNet-C.tar": CORRUPTIONS,
        "Tiny-ImageNet-C-extra.tar": HELD_OUT,
    }
    corruptions = (*CORRUPTIONS, *HELD_OUT)
    size = 64

    def published(self, task: str) -> tuple[int, int]:
        return CLASSES, 10_000

    def downloads(self, task: str | None = None) -> Sequence[str]:
        return ("tiny-imagenet-c-extra",) if task in HELD_OUT else ("tiny-imagenet-c",)

    def ranks(self, where: Path, task: str, found: Classes) -> Mapping[str, int]:
        self.refuse_partial(where, complaint(found, self.published(task), even=True))
        if len(found) != CLASSES:  # a label is the place among all of them
            raise UserError(f"{where}: {len(found)} classes, expected {CLASSES} (with allow_partial, too)")
        return {name: rank for rank, name in enumerate(sorted(found))}
