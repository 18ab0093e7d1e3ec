"""A small network and images for it."""

from __future__ import annotations

import pytest
import timm
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tests.support.small import stir
from tests.support.vits import TINY


@pytest.fixture(scope="session")
def tiny() -> VisionTransformer:
    """A small ViT with twelve classes; not to be changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: VisionTransformer = timm.create_model(TINY, num_classes=12)
        stir(network)
    return network.eval()


@pytest.fixture(scope="session")
def images() -> Tensor:
    """Two images for it."""
    return torch.rand(2, 3, 160, 160, generator=torch.Generator().manual_seed(1))
