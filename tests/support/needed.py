"""Files that some methods cannot be built without, made small: settings for the tests of all methods."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tta_bench_methods._prompt_training import PromptTraining

from tests.support.guided import small_unet
from tests.support.small import small_vit, stream


@cache
def needed(name: str) -> dict[str, Any]:
    """Settings without which a method refuses to be built; none for most."""
    if name == "dda":
        pytest.importorskip("diffusers")
        path = _folder() / "unet.pt"
        torch.save(small_unet(per_level=1).state_dict(), path)
        return {"unet": str(path), "steps": 4, "start": 1, "size": 8}
    if name == "dept-g":
        return {"prompts": str(prompts_for(small_vit(), _folder() / "prompts.safetensors"))}
    return {}


def prompts_for(model: Any, path: Path, *, pixels: int = 16, batches: int = 2, classes: int = 10) -> Path:
    """A file of prompts that were trained for a few steps."""
    training = PromptTraining(model, num_classes=classes, steps=batches, seed=0, prompts=3)
    for images in stream(count=batches, pixels=pixels, seed=11):
        training.step(images, torch.arange(len(images)) % classes)
    save_file(training.tensors(), path)
    return path


@cache
def _folder() -> Path:
    kept = tempfile.TemporaryDirectory()
    _open.append(kept)
    return Path(kept.name)


_open: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends
