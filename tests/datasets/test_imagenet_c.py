"""ImageNet-C as folders: its layout, its clean images, and incomplete trees."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from timm.data.imagenet_info import ImageNetInfo

from tests.support import trees
from tta_bench.datasets import listing, open_dataset
from tta_bench.datasets.imagenet import wnids
from tta_bench.datasets.listing import complaint
from tta_bench.errors import UserError


def test_the_thousand_classes_are_in_the_order_of_logits() -> None:
    assert len(wnids()) == 1000
    assert list(wnids()) == sorted(set(wnids()))
    assert (wnids()[0], wnids()[-1]) == ("n01440764", "n15075141")
    assert list(wnids()) == list(ImageNetInfo().label_names()), "timm's models have the same"  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("inside", [True, False])
def test_imagenet_c_as_folders(tmp_path: Path, inside: bool) -> None:
    home = trees.imagenet_c(tmp_path, ("fog", "snow"), (3, 5))
    images = trees.partial("imagenet-c", tmp_path if inside else home, severity=5).open("fog")
    assert images.ids[0] == "fog/5/n01440764/ILSVRC2012_val_00000001.JPEG"
    assert list(images.labels) == [0, 0, 1, 1, 2, 2]
    pixels = images.read(np.array([4, 0]))
    assert (pixels.shape, pixels.dtype) == ((2, 3, 224, 224), np.uint8)
    with Image.open(home / images.ids[4]) as file:
        assert np.array_equal(pixels[0], np.asarray(file).transpose(2, 0, 1))  # 224 pixels stay as they are


def test_severities_differ_only_in_their_folder(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path, ("fog",), (1, 5))
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    assert data.at_severity(1).open("fog").ids[0].startswith("fog/1/")
    assert data.open("fog").ids[0].startswith("fog/5/")


def test_clean_images_are_asked_for_only_when_needed(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path)
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    data.open("fog")
    with pytest.raises(UserError, match=r"put the ImageNet validation images as .*ImageNet-val/<wnid>/\*.JPEG"):
        data.source_images()
    trees.clean_imagenet(tmp_path, "imagenet/val")
    assert data.source_images().ids[0] == "n01440764/ILSVRC2012_val_00000001.JPEG"


def test_clean_images_are_a_fixed_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tta_bench.datasets import on_disk

    monkeypatch.setattr(on_disk.some_of, "__kwdefaults__", {"most": 3})
    trees.clean_imagenet(tmp_path, classes=5)
    first, second = (trees.partial("imagenet-c", tmp_path, severity=5).source_images() for _ in range(2))
    assert first.ids == second.ids == sorted(first.ids)
    assert len(first.ids) == 3
    assert trees.everything(first).shape == (3, 3, 224, 224)


def test_999_classes_name_the_missing_one() -> None:
    found = {wnid: ["a"] * 50 for wnid in wnids()[1:]}
    assert complaint(found, (1000, 50_000), names=wnids()) == "999 classes, expected 1000: n01440764 missing"
    found = {wnid: ["a"] * 50 for wnid in wnids()}
    assert complaint(found, (1000, 50_000), names=wnids(), even=True) is None
    found[wnids()[5]].pop()
    said = complaint(found, (1000, 50_000), names=wnids(), even=True)
    assert said == "49,999 images, expected 50,000: 50 in each class, but not in n01496331 (49)"
    found[wnids()[6]] = ["a"] * 51  # the sum is right again
    assert "n01496331 (49), n01498041 (51)" in str(complaint(found, (1000, 50_000), even=True))


def test_a_partial_tree_is_refused_unless_allowed(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    data = open_dataset({"kind": "imagenet-c", "severity": 5}, ["fog"], tmp_path)
    for call in (data.open, data.inspect):
        with pytest.raises(UserError, match="fog/5: 3 classes, expected 1000: .* and 994 more missing .*allow_partial"):
            call("fog")
    (home / "fog" / "5" / "n01440764" / "notes.txt").write_text("passed over")
    assert trees.partial("imagenet-c", tmp_path, severity=5).inspect("fog").startswith("3 classes, 6 images")


def test_an_empty_class_folder_is_named(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    (home / "fog" / "5" / wnids()[9]).mkdir()
    with pytest.raises(UserError, match=f"class folder .*fog/5/{wnids()[9]} is empty"):
        trees.partial("imagenet-c", tmp_path, severity=5).inspect("fog")


def test_folders_not_named_after_a_class_are_refused(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    trees.write(home / "fog" / "5" / "n99999999" / "a.JPEG")
    with pytest.raises(UserError, match="'n99999999' is not an ImageNet class"):
        trees.partial("imagenet-c", tmp_path, severity=5).open("fog")


def test_a_folder_link_to_itself_is_named(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    (home / "fog" / "5" / wnids()[9]).symlink_to(wnids()[9])
    with pytest.raises(UserError, match=f"{wnids()[9]}: a link that cannot be followed"):
        trees.partial("imagenet-c", tmp_path, severity=5).open("fog")
    (home / "fog" / "5" / wnids()[9]).unlink()
    (home / "fog" / "5" / wnids()[0] / "up").symlink_to("..")  # listing goes one level down, so it ends
    assert len(trees.partial("imagenet-c", tmp_path, severity=5).open("fog").ids) == 6


def test_a_sample_may_be_all(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path, classes=10)
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    assert data.inspect("fog", sample=None).startswith("10 classes, 20 images, 20 opened (allow_partial")
    trees.broken(home / "fog" / "5" / wnids()[7] / "ILSVRC2012_val_00000015.JPEG", "truncated")
    with pytest.raises(UserError, match="val_00000015.JPEG"):
        data.inspect("fog", sample=None)


def test_a_full_check_takes_seconds(tmp_path: Path) -> None:
    """150 of the 15,000 folders of ImageNet-C at one severity, 50 files each: a hundredth of the work, in 100 ms."""
    first = trees.write(tmp_path / "a.JPEG")
    for folder in (tmp_path / "fog" / "5" / wnid for wnid in wnids()[:150]):
        folder.mkdir(parents=True)
        for i in range(50):
            os.link(first, folder / f"{i}.JPEG")
    data = trees.partial("imagenet-c", tmp_path, severity=5)

    def once() -> float:
        start = time.perf_counter()
        data.inspect("fog", sample=0)
        return time.perf_counter() - start

    assert min(once() for _ in range(5)) < 0.1


def test_several_folders_are_listed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"class{i:03d}" for i in range(120)]
    for name in names:
        trees.write(tmp_path / name / "b.jpg", size=(2, 2))
        trees.write(tmp_path / name / "a.jpg", size=(2, 2))
    (tmp_path / names[-1] / "a.jpg").unlink()
    threads: set[int] = set()
    scandir = os.scandir

    def waiting(folder: Any) -> Any:
        threads.add(threading.get_ident())
        time.sleep(0.002)
        return scandir(folder)

    monkeypatch.setattr(listing.os, "scandir", waiting)
    found = listing.list_classes(tmp_path)
    assert list(found) == names
    assert found == {name: ["a.jpg", "b.jpg"] for name in names[:-1]} | {names[-1]: ["b.jpg"]}
    assert len(threads) > 2
    (tmp_path / names[-1] / "b.jpg").unlink()
    with pytest.raises(UserError, match=f"class folder .*{names[-1]} is empty"):
        listing.list_classes(tmp_path)
