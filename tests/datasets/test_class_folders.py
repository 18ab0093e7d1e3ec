"""ImageNet-R, ImageNet-A and similar sets: masks follow the folder names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import trees
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.datasets.imagenet import wnids
from tta_bench.errors import UserError


def imagenet_r(root: Path, classes: int = 200, folder: str = "imagenet-r") -> Dataset:
    return open_dataset({"kind": "class-folders", "folder": folder, "classes": classes, "images": classes}, (), root)


def test_masks_follow_the_folder_names(tmp_path: Path) -> None:
    r, a = trees.some_wnids(200, 1), wnids()[::5]
    trees.class_folders(tmp_path, "imagenet-r", r)
    trees.class_folders(tmp_path, "imagenet-a", a)
    data, other = imagenet_r(tmp_path), imagenet_r(tmp_path, folder="imagenet-a")
    assert data.tasks() == ("imagenet-r",)
    assert (data.num_classes, data.model_classes) == (200, 1000)
    assert data.class_mask() == tuple(range(1, 201))
    assert other.class_mask() == tuple(range(0, 1000, 5))
    images, mask = other.open("imagenet-a"), other.class_mask() or ()
    assert list(images.labels) == list(range(200))
    for label, image_id in zip(images.labels, images.ids, strict=True):  # label i is the mask's column i
        assert wnids()[mask[label]] == image_id.split("/")[0]
    assert data.inspect("imagenet-r") == "200 classes, 200 images, 3 opened"


def test_with_a_mask_clean_images_are_of_its_classes(tmp_path: Path) -> None:
    trees.clean_imagenet(tmp_path, classes=5)
    trees.class_folders(tmp_path, "imagenet-r", trees.some_wnids(2, 3))
    data = trees.partial("class-folders", tmp_path, folder="imagenet-r", classes=200, images=30000)
    assert {image_id.split("/")[0] for image_id in data.source_images().ids} == set(trees.some_wnids(2, 3))


def test_missing_classes_of_imagenet_r_and_wrong_counts(tmp_path: Path) -> None:
    trees.class_folders(tmp_path, "imagenet-r", trees.some_wnids(4))
    for call in (lambda d: d.class_mask(), lambda d: d.inspect("imagenet-r")):
        with pytest.raises(UserError, match="imagenet-r: 4 classes, expected 5"):
            call(imagenet_r(tmp_path, 5))
    trees.write(tmp_path / "imagenet-r" / wnids()[0] / "more.jpg")
    with pytest.raises(UserError, match="imagenet-r: 5 images, expected 4"):
        imagenet_r(tmp_path, 4).open("imagenet-r")


def test_images_are_resized_as_the_model_says_or_as_the_suite_does(tmp_path: Path) -> None:
    trees.class_folders(tmp_path, "imagenet-r", trees.some_wnids(2))
    options = {"folder": "imagenet-r", "classes": 200, "images": 30000}
    views = [
        trees.partial("class-folders", tmp_path, **options, **more).sized(224, "bicubic").transform
        for more in ({}, {"interpolation": "bilinear"})
    ]
    assert [view and view.interpolation for view in views] == ["bicubic", "bilinear"]
    with pytest.raises(UserError, match="interpolation: expected 'bicubic' or 'bilinear' or .* got 'cubic'"):
        trees.partial("class-folders", tmp_path, **options, interpolation="cubic")
