"""The models included in tta-bench."""

from __future__ import annotations

from pathlib import Path

from tta_bench.models import checkpoint
from tta_bench.models.packaged import PackagedModel


def digits_vit() -> PackagedModel:
    """The source model of the digits suites; `tta-bench train-source digits` makes it."""
    return _packaged("digits_vit.safetensors", 32, "ViT of 12 blocks, trained on scikit-learn's digits")


def digit_pairs_vit() -> PackagedModel:
    """The source model of the digit-pairs suites; `tta-bench train-source digit-pairs` makes it."""
    return _packaged("digit_pairs_vit.safetensors", 16, "ViT of 12 blocks, trained on drawings of two digits")


def cifar10_resnet20() -> PackagedModel:
    """The source model of cifar10-c-5-resnet20; `tta-bench train-source cifar10 --network resnet20` makes it."""
    return _packaged("cifar10_resnet20.safetensors", 32, "ResNet-20 with BatchNorm, trained on CIFAR-10")


def _packaged(file: str, input_size: int, about: str) -> PackagedModel:
    path = Path(__file__).parent / "checkpoints" / file
    note = checkpoint.read_note(path)
    return PackagedModel(
        build=lambda: checkpoint.restore(path)[0],
        mean=note.mean,
        std=note.std,
        about=about,
        num_classes=note.architecture["num_classes"],
        input_size=input_size,
        clean=round(100 * note.made_by["clean_test_accuracy"], 2),
        licence="MIT",
        files=(path,),
    )
