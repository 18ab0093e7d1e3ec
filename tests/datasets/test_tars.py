"""ImageNet-C from tars that are never unpacked."""

from __future__ import annotations

import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.support import trees
from tta_bench.datasets import tar as tar_index
from tta_bench.errors import UserError
from tta_bench.streams.stream import digest


@pytest.mark.parametrize("name", ["fog.tar", "weather.tar"])
@pytest.mark.parametrize("lead", ["fog", "./fog", f"{'a' * 40}/{'b' * 40}/fog"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_gives_the_same_images_as_its_folder(tmp_path: Path, name: str, lead: str, form: int) -> None:
    home = trees.imagenet_c(tmp_path / "folders", ("fog",), (1, 5))
    trees.packed(home / "fog", tmp_path / "tars" / "ImageNet-C" / name, lead, form)
    (unpacked, packed) = (
        trees.partial("imagenet-c", tmp_path / d, severity=5).open("fog") for d in ("folders", "tars")
    )
    assert digest(unpacked.ids) == digest(packed.ids)
    assert list(unpacked.labels) == list(packed.labels)
    assert np.array_equal(trees.everything(unpacked), trees.everything(packed))
    sent = pickle.loads(pickle.dumps(packed))  # as a worker process gets it
    assert np.array_equal(sent.read(np.array([3])), unpacked.read(np.array([3])))


def test_an_empty_folder_does_not_hide_a_tar(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path / "folders")
    trees.packed(home / "fog", tmp_path / "ImageNet-C" / "fog.tar", "fog")
    (tmp_path / "ImageNet-C" / "fog" / "5").mkdir(parents=True)
    assert len(trees.partial("imagenet-c", tmp_path, severity=5).open("fog").ids) == 6


def test_a_tar_is_scanned_once_until_it_changes(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path / "folders", ("fog",), (1, 5))
    file = trees.packed(home / "fog", tmp_path / "ImageNet-C" / "fog.tar", "fog")
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    tar_index._scan.cache_clear()
    data.open("fog")
    data.at_severity(1).open("fog")
    assert tar_index._scan.cache_info().misses == 1
    os.utime(file, (1, 1))
    data.open("fog")
    assert tar_index._scan.cache_info().misses == 2


@pytest.mark.parametrize("how", ["truncated", "no image"])
def test_a_bad_file_in_a_tar_is_named(tmp_path: Path, how: str) -> None:
    home = trees.imagenet_c(tmp_path / "folders", classes=1)
    said = trees.broken(home / "fog" / "5" / "n01440764" / "ILSVRC2012_val_00000002.JPEG", how)
    trees.packed(home / "fog", tmp_path / "ImageNet-C" / "fog.tar", "fog")
    with pytest.raises(UserError, match=rf"val_00000002.JPEG in .*fog.tar: {said}"):
        trees.partial("imagenet-c", tmp_path, severity=5).inspect("fog")


@pytest.mark.parametrize("cut", [700, -3000])
def test_a_cut_off_tar_is_named(tmp_path: Path, cut: int) -> None:
    home = trees.imagenet_c(tmp_path / "folders", classes=1)
    file = trees.packed(home / "fog", tmp_path / "ImageNet-C" / "fog.tar", "fog")
    last = max(tar_index.index(file)["fog", 5].offsets)
    file.write_bytes(file.read_bytes()[: cut if cut > 0 else last + 50])
    with pytest.raises(UserError, match=r"fog.tar: (is cut off|not a readable|has no)"):
        trees.partial("imagenet-c", tmp_path, severity=5).open("fog")


def test_a_file_that_is_not_a_tar_is_named(tmp_path: Path) -> None:
    (tmp_path / "fog.tar").write_bytes(b"x" * 2000)
    with pytest.raises(UserError, match="fog.tar: not a readable uncompressed tar"):
        trees.partial("imagenet-c", tmp_path, severity=5).open("fog")
