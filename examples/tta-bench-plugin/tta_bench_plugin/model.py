"""The model of the suite. Describing it imports no torch; building it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.models.packaged import PackagedModel
from tta_bench_plugin.dataset import KINDS, PIXELS

if TYPE_CHECKING:
    from torch import nn

WEIGHTS = Path(__file__).with_name("shapes_cnn.safetensors")


def shapes_cnn() -> PackagedModel:
    """What the entry point names: a function without arguments."""
    return PackagedModel(
        build=trained,
        mean=(0.4, 0.4, 0.4),
        std=(0.3, 0.3, 0.3),
        about="three convolutions with GroupNorm, for the shapes suite",
        num_classes=len(KINDS),
        input_size=PIXELS,
        files=(WEIGHTS,),
    )


def trained() -> nn.Module:
    from safetensors.torch import load_file

    network = untrained()
    network.load_state_dict(load_file(WEIGHTS))
    return network


def untrained() -> nn.Module:
    from torch import nn

    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.GroupNorm(4, after), nn.ReLU()]

    features = nn.Sequential(*block(3, 16), *block(16, 32), *block(32, 32), nn.AdaptiveMaxPool2d(1), nn.Flatten())
    return nn.Sequential(features, nn.Linear(32, len(KINDS)))
