"""A network that takes a file's weights is built without random numbers, and is the same network."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

from tta_bench.models import weights


@pytest.mark.parametrize("name", ["test_vit", "test_vit3", "test_convnext", "test_resnet", "test_efficientnet"])
def test_a_files_weights_fill_the_whole_network(name: str, tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = timm.create_model(name).eval()
        images = torch.rand(2, 3, 160, 160)
    save_file(drawn.state_dict(), tmp_path / "weights.safetensors")
    found = weights.from_file(name, tmp_path / "weights.safetensors").eval()
    with torch.no_grad():
        assert torch.equal(found(images), drawn(images))


def test_no_random_numbers_are_drawn_for_it() -> None:
    kept = torch.full((3,), 7.0)
    weight = torch.nn.Parameter(kept.clone())
    with weights._SkipInit():
        torch.nn.init.uniform_(kept)
        torch.nn.init.normal_(kept)
        assert kept.tolist() == [7.0] * 3
        timm.layers.trunc_normal_(weight, std=0.02)
        assert weight.tolist() == [7.0] * 3
        assert kept.clone().add_(1).tolist() == [8.0] * 3, "all else goes on as it does"
    assert torch.nn.init.uniform_(kept).max() <= 1
