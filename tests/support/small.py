"""Small models and streams for the tests of methods: those of `tta_bench.testing`."""

from __future__ import annotations

from typing import Any

import timm
import torch
from torch import nn

from tta_bench.testing import stir, stream
from tta_bench.testing import tiny_resnet as small_resnet
from tta_bench.testing import tiny_vit as small_vit

__all__ = ["BATCHNORM_ONLY", "model_for", "small_resnet", "small_vit", "stir", "stream", "tiny"]

BATCHNORM_ONLY = ("bn-test", "bn-alpha", "tribe", "note")


def model_for(name: str) -> nn.Module:
    """A small model that the method takes: a ViT, but for methods that are about BatchNorm."""
    found: nn.Module = small_resnet() if name in BATCHNORM_ONLY else small_vit()
    return found


def tiny(name: str, **changes: Any) -> nn.Module:
    """One of timm's architectures with ten classes and stirred weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = timm.create_model(name, num_classes=10, **changes)
        stir(model)
    return model.eval()
