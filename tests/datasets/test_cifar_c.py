"""CIFAR-C as published: arrays of five blocks."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.support import trees
from tta_bench.datasets import open_dataset
from tta_bench.errors import UserError


@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_severities_are_blocks(tmp_path: Path, classes: int) -> None:
    trees.cifar_c(tmp_path, classes)
    data = trees.partial("cifar-c", tmp_path, classes=classes, severity=2)
    for severity in (1, 2, 5):
        images = data.at_severity(severity).open("fog")
        pixels = trees.everything(images)
        assert (pixels.shape, pixels.flags.c_contiguous) == ((20, 3, 32, 32), True)
        assert set(pixels[:, 0, 0, 0]) == {severity}
        assert images.ids[7] == f"fog/{severity}/00007"
        assert images.labels[7] == 7
    images = pickle.loads(pickle.dumps(data.open("fog")))
    assert len(pickle.dumps(images)) < 5000  # the file is not in it
    assert data.sized(64).open("fog").read(np.array([1])).shape == (1, 3, 64, 64)


def test_a_suite_may_use_a_fixed_part_of_the_images(tmp_path: Path) -> None:
    home = trees.cifar_c(tmp_path, corruptions=("fog", "snow"))
    np.save(home / "original.npy", np.arange(20, dtype=np.uint8)[:, None, None, None] + np.zeros((32, 32, 3), np.uint8))
    data = trees.partial("cifar-c", tmp_path, classes=10, severity=5, images=7)
    fog, snow, clean = data.open("fog"), data.open("snow"), data.originals("fog")
    rows = [int(name.rpartition("/")[2]) for name in fog.ids]
    assert len(set(rows)) == 7
    assert [name.partition("/")[2] for name in fog.ids] == [name.partition("/")[2] for name in snow.ids]
    assert list(fog.labels) == [row % 10 for row in rows]
    assert np.array_equal(trees.everything(fog), np.load(home / "fog.npy")[80:][rows].transpose(0, 3, 1, 2))
    assert list(trees.everything(clean)[:, 0, 0, 0]) == rows
    assert len(data.source_images().ids) == 20  # what a method prepares on is not cut
    with pytest.raises(UserError, match="images is 21, but a task has only 20 images"):
        trees.partial("cifar-c", tmp_path, classes=10, severity=5, images=21).open("fog")


def test_cifar_needs_its_originals(tmp_path: Path) -> None:
    home = trees.cifar_c(tmp_path)
    data = trees.partial("cifar-c", tmp_path, classes=10, severity=1)
    with pytest.raises(UserError, match="put the original test images.*original.npy"):
        data.source_images()
    np.save(home / "original.npy", np.zeros((20, 32, 32, 3), np.uint8))
    assert len(data.source_images().ids) == 20


def test_bad_arrays_are_named(tmp_path: Path) -> None:
    home = trees.cifar_c(tmp_path)
    data = trees.partial("cifar-c", tmp_path, classes=10, severity=1)
    with pytest.raises(UserError, match=r"snow.npy is missing"):
        data.open("snow")
    with pytest.raises(UserError, match="fog.npy: 20 images a severity, expected 10,000"):
        open_dataset({"kind": "cifar-c", "classes": 10, "severity": 1}, ["fog"], tmp_path).open("fog")
    np.save(home / "snow.npy", np.zeros((100, 32, 32), np.float32))
    with pytest.raises(UserError, match=r"snow.npy: expected bytes of shape \(N, 32, 32, 3\), got float32"):
        data.open("snow")
    np.save(home / "frost.npy", np.zeros((90, 32, 32, 3), np.uint8))
    with pytest.raises(UserError, match="frost.npy: 90 images, expected 5 x 20"):
        data.open("frost")
    (home / "fog.npy").write_bytes((home / "fog.npy").read_bytes()[:3000])
    with pytest.raises(UserError, match="fog.npy: not a readable array"):
        data.open("fog")
    np.save(home / "labels.npy", np.full(100, 10))
    with pytest.raises(UserError, match="labels.npy: expected a 1-D array of labels from 0 to 9"):
        data.open("fog")
