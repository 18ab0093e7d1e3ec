"""The models included in tta-bench."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.models import checkpoint
from tta_bench.models.packaged import PackagedModel

if TYPE_CHECKING:
    from torch import nn


def digits_vit() -> PackagedModel:
    """The source model of the digits suites; `tta-bench train-source digits` makes it."""
    path = Path(__file__).parent / "checkpoints" / "digits_vit.safetensors"
    note = checkpoint.read_note(path)
    return PackagedModel(
        build=partial(_trained, path),
        mean=note.mean,
        std=note.std,
        about="ViT of 12 blocks, trained on scikit-learn's digits",
        num_classes=note.architecture["num_classes"],
        input_size=note.architecture["img_size"],
        files=(path,),
    )


def _trained(path: Path) -> nn.Module:
    state, note = checkpoint.load(path)
    network = checkpoint.build(note)
    network.load_state_dict(state)
    return network
