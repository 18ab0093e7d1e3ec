"""`tta-bench check` on a full ImageNet-C: 750,000 files, of which only a sample is opened."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

from tests.support import trees
from tta_bench.corruptions import CORRUPTIONS
from tta_bench.datasets.imagenet import wnids

TAG = "vit_base_patch16_224.augreg_in21k_ft_in1k"
LIMIT = 10.0  # seconds of wall time; importing torch and timm takes more than half of it
ATTEMPTS = 3  # the machine may be busy during some


def hard_links(home: Path, size: tuple[int, int], seed: int) -> None:
    """<home>/<wnid>/ILSVRC2012_val_*.JPEG, 50 of each class: 50,000 names of one file, which every disk allows."""
    first = os.fspath(trees.write(home / wnids()[0] / "ILSVRC2012_val_00000001.JPEG", seed, size))
    for c, wnid in enumerate(wnids()):
        folder = home / wnid
        folder.mkdir(exist_ok=True)
        for i in range(50 * c + 1, 50 * c + 51):
            if i > 1:
                os.link(first, f"{folder}/ILSVRC2012_val_{i:08d}.JPEG")


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """All of ImageNet-C at severity 5, the clean validation images, and random weights of a ViT-B."""
    for seed, corruption in enumerate(CORRUPTIONS):
        hard_links(tmp_path / "ImageNet-C" / corruption / "5", (224, 224), seed)
    hard_links(tmp_path / "ImageNet-val", (500, 375), 15)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(timm.create_model(TAG).state_dict(), tmp_path / "vit.safetensors")
    return tmp_path


@pytest.mark.slow
@pytest.mark.alone
def test_a_full_imagenet_c_is_checked_in_ten_seconds(full: Path) -> None:
    command: list[object] = [sys.executable, "-m", "tta_bench.cli.main", "check", "--suite", "imagenet-c-5"]
    command += ["--data-root", full, "--model", f"{TAG}={full / 'vit.safetensors'}", "--device", "cpu"]
    imports: list[object] = [sys.executable, "-c", "import torch, timm"]
    taken = []
    for _ in range(ATTEMPTS):
        alone, (done, seconds) = timed(imports)[1], timed(command)
        print(f"check on 750,000 images: {seconds:.1f} s; imports alone {alone:.1f} s")
        taken.append(seconds)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("1000 classes, 50,000 images, 3 opened") == len(CORRUPTIONS)
        assert done.stdout.count("not tried, 86,567,656 weights are slow on a CPU") == 6
    assert min(taken) < LIMIT


def timed(command: list[object]) -> tuple[subprocess.CompletedProcess[str], float]:
    """A command's outcome, and its seconds."""
    began = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return done, time.perf_counter() - began
