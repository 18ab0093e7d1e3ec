"""The checkpoints that ship: their notes describe them, and they load by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tta_bench.models import checkpoint, packaged
from tta_bench.models import source as models

FOLDER = Path(checkpoint.__file__).parent / "checkpoints"
FILES = sorted(FOLDER.glob("*.safetensors"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_note_describes_the_weights(path: Path) -> None:
    assert path.with_suffix(".md").read_text() == checkpoint.describe(path)
    assert packaged.describe(path.stem.replace("_", "-")).files == (path,)


def test_the_resnet_has_batchnorm_and_its_published_size() -> None:
    source = models.load("cifar10-resnet20")
    network = source.fresh(torch.device("cpu"))
    assert sum(weight.numel() for weight in network.parameters()) == 269_722
    assert any(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules())
    assert (source.num_classes, source.input_size) == (10, 32)
    assert packaged.describe("cifar10-resnet20").clean > 90
    assert (FOLDER / "cifar10_resnet20.safetensors").stat().st_size < 1.5e6


def test_its_log_ends_with_the_accuracy_of_its_note() -> None:
    *epochs, last = (FOLDER / "cifar10_resnet20.log").read_text().splitlines()
    made = checkpoint.read_note(FOLDER / "cifar10_resnet20.safetensors").made_by
    assert len(epochs) == 32
    assert f"{100 * made['clean_test_accuracy']:.2f} %" in last
