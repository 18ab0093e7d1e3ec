"""Clean counterparts of corrupted images, which the attention figure shows beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from tests.support import trees
from tests.support.cli import Cli
from tta_bench.datasets.transform import photograph
from tta_bench.errors import UserError
from tta_bench.inspect.inspection import Inspection
from tta_bench.inspect.inspector import find_originals

SUITE = """
name: tree
about: a small tree
data: {kind: imagenet-c, severity: 5, allow_partial: true}
tasks: [fog, snow]
model: none
batch_size: 4
methods: {tent: {}}
"""


@pytest.mark.parametrize("packed", [False, True])
def test_originals_of_imagenet_c_are_the_files_of_the_same_names(tmp_path: Path, packed: bool) -> None:
    home = trees.imagenet_c(tmp_path / ("folders" if packed else ""))
    if packed:
        trees.packed(home / "fog", tmp_path / "ImageNet-C" / "fog.tar", "fog")
    clean = trees.clean_imagenet(tmp_path, classes=5)  # may hold more images than the task
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    corrupted, originals = data.open("fog"), data.originals("fog")
    assert originals is not None
    assert [f"fog/5/{name}" for name in originals.ids] == list(corrupted.ids)
    assert list(originals.labels) == list(corrupted.labels)
    with Image.open(clean / originals.ids[3]) as file:
        assert np.array_equal(originals.read(np.array([3]))[0], photograph(224)(file))
    resized = data.sized(160, "bicubic").originals("fog")
    assert resized is not None
    assert resized.read(np.array([0])).shape == (1, 3, 160, 160)


def test_missing_originals_of_imagenet_c_are_named(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path)
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    with pytest.raises(UserError, match=r"no originals: put the ImageNet validation images as .*ImageNet-val/<wnid>"):
        data.originals("fog")
    clean = trees.clean_imagenet(tmp_path)
    (clean / "n01440764" / "ILSVRC2012_val_00000002.JPEG").unlink()
    with pytest.raises(UserError, match=r"1 of 6 are missing: n01440764/ILSVRC2012_val_00000002.JPEG"):
        data.originals("fog")


def test_originals_of_cifar_are_in_the_order_of_its_labels(tmp_path: Path) -> None:
    home = trees.cifar_c(tmp_path)
    data = trees.partial("cifar-c", tmp_path, classes=10, severity=3)
    with pytest.raises(
        UserError,
        match=r"no originals: run `tta-bench download cifar10`, or put the original test images.*original.npy",
    ):
        data.originals("fog")
    pixels = np.random.default_rng(1).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    np.save(home / "original.npy", pixels)
    originals, corrupted = data.originals("fog"), data.open("fog")
    assert originals is not None
    assert list(originals.labels) == list(corrupted.labels)
    assert np.array_equal(originals.read(np.array([7, 2])), pixels[[7, 2]].transpose(0, 3, 1, 2))
    np.save(home / "original.npy", pixels[:19])
    for call in (data.originals, data.source_images):
        with pytest.raises(UserError, match=r"original.npy: 19 images, expected 20"):
            call("fog")


def test_all_tasks_have_originals_or_none_has(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path, ("fog", "snow"))
    clean = trees.clean_imagenet(tmp_path)
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    found, lacking = find_originals(data, ("fog", "snow"))
    assert (list(found), lacking) == (["fog", "snow"], "")
    next(clean.glob("*/*")).unlink()
    data = trees.partial("imagenet-c", tmp_path, severity=5)  # one dataset lists a folder once
    found, lacking = find_originals(data, ("fog", "snow"))
    assert (found, "1 of 6 are missing" in lacking) == ({}, True)
    trees.class_folders(tmp_path, "imagenet-r", trees.some_wnids(2))
    data = trees.partial("class-folders", tmp_path, folder="imagenet-r", classes=2, images=2)
    assert find_originals(data, ("imagenet-r",)) == ({}, "no originals: this data has none")


def test_inspect_stores_originals_or_says_what_is_missing(cli: Cli, tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path, ("fog", "snow"))
    (tmp_path / "tree.yaml").write_text(SUITE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(timm.create_model("test_vit.r160_in1k").state_dict(), tmp_path / "vit.safetensors")
    words = ("inspect", "--suite", tmp_path / "tree.yaml", "--method", "tent", "--batches", 1, "--data-root", tmp_path)
    words += ("--model", f"test_vit.r160_in1k={tmp_path / 'vit.safetensors'}", "--out", tmp_path / "out")
    status, shown, err = cli(*words)
    assert status == 0, err
    assert "Skipped attention on clean images: no originals: put the ImageNet validation images as" in shown
    assert len(Inspection.open(tmp_path / "out").attention_clean) == 0

    clean = trees.clean_imagenet(tmp_path)
    status, shown, _ = cli(*words)
    assert (status, "left out" in shown) == (0, False)
    found = Inspection.open(tmp_path / "out")
    assert found.attention_clean.shape == found.attention_adapted.shape == (8, 10, 10)
    assert (found.attention_clean != found.attention_corrupted).any()
    assert found.original.shape == (4, 3, 160, 160)
    views = [photograph(160, "bicubic")(Image.open(file)) for file in sorted(clean.glob("*/*"))]
    assert all(any(np.array_equal(original, view) for view in views) for original in found.original)
