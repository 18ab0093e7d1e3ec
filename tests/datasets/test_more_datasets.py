"""ImageNet-V2, -Sketch, -3DCC, Tiny-ImageNet-C, CIFAR-10.1, and the user's own images."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import trees
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.datasets.imagenet import ranks
from tta_bench.download.table import find
from tta_bench.errors import UserError
from tta_bench.suites import suite

NEW = ("imagenet-v2", "imagenet-sketch", "imagenet-3dcc-5", "tiny-imagenet-c-5", "cifar10.1")
HOLDOUTS = ("imagenet-c-holdout", "cifar10-c-holdout", "cifar100-c-holdout")


def own(kind: str, root: Path, **options: Any) -> Dataset:
    return open_dataset({"kind": kind, **options}, (), root)


@pytest.mark.parametrize("name", [*NEW, *HOLDOUTS])
def test_a_suite_without_data_names_its_download(tmp_path: Path, name: str) -> None:
    found = suite.load(name)
    dataset = open_dataset(found.data, found.tasks, tmp_path)
    for task in found.tasks:
        assert find(dataset.downloads(task))
    with pytest.raises(UserError, match="run `tta-bench download [a-z]"):
        dataset.open(found.tasks[0])


def test_holdouts_are_the_corruptions_that_no_table_scores() -> None:
    for name in HOLDOUTS:
        scored = set(suite.load(name.replace("holdout", "5")).tasks)
        assert suite.load(name).tasks == ("speckle_noise", "gaussian_blur", "spatter", "saturate")
        assert not scored & set(suite.load(name).tasks)


def test_imagenet_v2_names_classes_by_number(tmp_path: Path) -> None:
    trees.class_folders(tmp_path, "v2", ("0", "2", "10", "999"))
    dataset = trees.partial("class-folders", tmp_path, folder="v2", named_by="number", classes=1000, images=10000)
    images = dataset.open("v2")
    assert dataset.class_mask() == (0, 2, 10, 999)
    assert {i.split("/")[0]: label for i, label in zip(images.ids, images.labels, strict=True)} == {
        "0": 0, "2": 1, "10": 2, "999": 3,
    }  # fmt: skip
    (tmp_path / "v2" / "1000").mkdir()
    with pytest.raises(UserError, match="'1000' is not a class from 0 to 999"):
        dataset.class_mask()


def test_3dcc_has_the_layout_of_imagenet_c(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path, ("fog_3d",)).rename(tmp_path / "ImageNet-3DCC")
    images = trees.partial("imagenet-3dcc", tmp_path, severity=5).open("fog_3d")
    assert [images.ids[0].split("/")[2]] == trees.some_wnids(1)
    assert list(images.labels) == [0, 0, 1, 1, 2, 2]
    with pytest.raises(UserError, match="ImageNet-3DCC/fog_3d/5: 3 classes, expected 1000"):
        own("imagenet-3dcc", tmp_path, severity=5).open("fog_3d")


@pytest.mark.parametrize("packed", [False, True])
def test_tiny_imagenet_c_is_read_from_folders_and_from_its_tar(tmp_path: Path, packed: bool) -> None:
    names = trees.some_wnids(200)
    home = trees.imagenet_c(tmp_path / "made", ("fog",), classes=200, each=1)
    if packed:
        trees.packed(home, tmp_path / "Tiny-ImageNet-C" / "Tiny-ImageNet-C.tar", "Tiny-ImageNet-C")
    else:
        home.rename(tmp_path / "Tiny-ImageNet-C")
    dataset = trees.partial("tiny-imagenet-c", tmp_path, severity=5).sized(64)
    images = dataset.open("fog")
    assert dataset.num_classes == 200
    assert images.read(np.array([0, 5])).shape == (2, 3, 64, 64)
    assert [image.split("/")[2] for image in images.ids] == names
    assert list(images.labels) == list(range(200))
    with pytest.raises(UserError, match="200 images, expected 10,000"):
        own("tiny-imagenet-c", tmp_path, severity=5).open("fog")


def test_a_part_of_its_classes_is_refused(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path / "made").rename(tmp_path / "Tiny-ImageNet-C")
    with pytest.raises(UserError, match="3 classes, expected 200"):
        trees.partial("tiny-imagenet-c", tmp_path, severity=5).open("fog")


def test_cifar_10_1_is_two_arrays(tmp_path: Path) -> None:
    home = tmp_path / "CIFAR-10.1"
    home.mkdir()
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (2000, 32, 32, 3), dtype=np.uint8)
    np.save(home / "cifar10.1_v6_data.npy", pixels)
    np.save(home / "cifar10.1_v6_labels.npy", np.arange(2000, dtype=np.int32) % 10)
    found = suite.load("cifar10.1")
    images = open_dataset(found.data, found.tasks, tmp_path).open("CIFAR-10.1")
    assert np.array_equal(images.read(np.array([7, 3])), pixels[[7, 3]].transpose(0, 3, 1, 2))
    assert (images.labels[13], len(pickle.dumps(images)) < 100_000) == (3, True)
    np.save(home / "cifar10.1_v6_labels.npy", np.arange(1999) % 10)
    with pytest.raises(UserError, match=r"2,000 images, but cifar10.1_v6_labels.npy has 1,999 labels"):
        open_dataset(found.data, found.tasks, tmp_path).open("CIFAR-10.1")


def test_a_folder_of_class_folders_is_labelled_by_name(tmp_path: Path) -> None:
    trees.class_folders(tmp_path, "pets", ("cat", "ant", "dog"), each=2)
    images = own("folder", tmp_path, folder="pets").open("pets")
    assert list(zip(images.ids, images.labels, strict=True))[::2] == [
        ("ant/art_0.jpg", 0), ("cat/art_0.jpg", 1), ("dog/art_0.jpg", 2),
    ]  # fmt: skip
    dataset = own("folder", tmp_path, folder="pets", classes=["dog", "cow", "cat", "ant"])
    assert dataset.num_classes == 4
    assert list(dataset.open("pets").labels) == [3, 3, 2, 2, 0, 0]
    with pytest.raises(UserError, match=r"ant, dog not among the suite's classes \(cat\)"):
        own("folder", tmp_path, folder="pets", classes=["cat"]).open("pets")
    with pytest.raises(UserError, match="classes: 'cat' is listed twice"):
        own("folder", tmp_path, folder="pets", classes=["cat", "cat", "ant", "dog"]).open("pets")
    with pytest.raises(UserError, match="birds is missing: expected birds/<class>"):
        own("folder", tmp_path, folder="birds").open("birds")


def test_imagenet_class_names_keep_their_labels() -> None:
    assert ranks()["n01440764"] == 0


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A Hugging Face dataset of six images in three classes, saved with two splits."""
    hf = pytest.importorskip("datasets")
    names = ["cat", "ant", "dog"]
    features = hf.Features({"image": hf.Image(), "label": hf.ClassLabel(names=names), "name": hf.Value("string")})
    rows = {"image": [trees.picture(i) for i in range(6)], "label": [0, 1, 2, 0, 1, 2]}
    split = hf.Dataset.from_dict({**rows, "name": [names[i] for i in rows["label"]]}, features)
    hf.DatasetDict({"test": split, "train": split.select(range(3))}).save_to_disk(str(tmp_path / "pets"))
    split.to_parquet(str(tmp_path / "parquet" / "part.parquet"))
    return tmp_path


def test_a_hugging_face_dataset_is_read_from_disk(saved: Path) -> None:
    dataset = own("hf", saved, folder="pets", split="test")
    images = dataset.open("pets")
    assert (dataset.num_classes, list(images.labels)) == (3, [0, 1, 2, 0, 1, 2])
    pixels = pickle.loads(pickle.dumps(images)).read(np.array([4, 1]))
    expected = np.stack([dataset.transform(trees.picture(i)) for i in (4, 1)])  # type: ignore[misc]
    assert np.array_equal(pixels, expected), "saved as PNG: to the byte"
    assert images.files
    assert len(own("hf", saved, folder="pets", split="train").open("pets").ids) == 3


def test_its_labels_follow_the_model_s_class_names(saved: Path) -> None:
    for label in ("label", "name"):
        options = {"folder": "pets", "split": "test", "label": label, "classes": ["dog", "cow", "cat", "ant"]}
        assert list(own("hf", saved, **options).open("pets").labels) == [2, 3, 0, 2, 3, 0]
    assert list(own("hf", saved, folder="pets", split="test", label="name").open("pets").labels) == [1, 0, 2, 1, 0, 2]


def test_parquet_files_are_read(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", saved / "cache")
    images = own("hf", saved, folder="parquet", split="train").open("parquet")
    assert list(images.labels) == [0, 1, 2, 0, 1, 2]
    assert images.read(np.array([0])).shape == (1, 3, 224, 224)


def test_splits_of_parquet_files_stay_apart(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a copy of a repository of the hub: `data/test-00000-of-00001.parquet`."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", saved / "cache")
    for split, rows in datasets.load_from_disk(str(saved / "pets")).items():
        rows.to_parquet(str(saved / "hub" / "data" / f"{split}-00000-of-00001.parquet"))
    assert list(own("hf", saved, folder="hub", split="test").open("hub").labels) == [0, 1, 2, 0, 1, 2]
    assert list(own("hf", saved, folder="hub", split="train").open("hub").labels) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "val"}, r"has no split 'val' \(known: test, train\)"),
        ({"label": "lable"}, "has no column 'lable'; did you mean 'label'?"),
        ({"image": "picture"}, "has no column 'picture'"),
        ({"image": "name"}, "column 'name' has no images"),
        ({"label": "image"}, "column 'image' has neither class names nor numbers"),
        ({"classes": ["cat"]}, "ant, dog not among the suite's classes"),
    ],
)
def test_mistakes_in_a_hugging_face_suite_are_one_line(saved: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        own("hf", saved, **{"folder": "pets", "split": "test", **options}).open("pets")


def test_images_without_a_label_are_refused(tmp_path: Path) -> None:
    """-1 and None mark hidden labels, as in published test sets."""
    hf = pytest.importorskip("datasets")
    features = hf.Features({"image": hf.Image(), "label": hf.ClassLabel(names=["cat", "ant"])})
    rows = {"image": [trees.picture(i) for i in range(3)], "label": [0, -1, None]}
    hf.DatasetDict({"test": hf.Dataset.from_dict(rows, features)}).save_to_disk(str(tmp_path / "pets"))
    with pytest.raises(UserError, match="2 of 3 images have no label in 'label'"):
        own("hf", tmp_path, folder="pets", split="test").open("pets")


def test_a_folder_without_a_dataset_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "pets").mkdir()
    with pytest.raises(UserError, match="pets: not a Hugging Face dataset"):
        own("hf", tmp_path, folder="pets", split="test").open("pets")


def test_subfolders_of_a_folder_are_tasks(tmp_path: Path) -> None:
    for place in ("pets/fog/5", "pets/snow/5", "clean"):
        for name in ("cat", "dog"):
            trees.write(tmp_path / place / name / "a.png", seed=len(place))
    options: dict[str, Any] = {"folder": "pets", "tasks": ["fog/5", "snow/5"]}
    pets = own("folder", tmp_path, **options, source="clean").sized(32)
    assert (list(pets.tasks()), pets.num_classes) == (["fog", "snow"], 2)
    images = pets.open("snow")
    assert list(images.ids) == ["snow/cat/a.png", "snow/dog/a.png"]
    assert not np.array_equal(images.read(np.array([0])), pets.source_images().read(np.array([0])))
    assert list(pets.source_images().labels) == [0, 1]
    with pytest.raises(UserError, match="needs clean source images: name a folder of them"):
        own("folder", tmp_path, **options).source_images()
    with pytest.raises(UserError, match="two of fog/4, fog/5 would have the same name"):
        own("folder", tmp_path, folder="pets", tasks=["fog/4", "fog/5"])
    (tmp_path / "pets" / "fog" / "5").rename(tmp_path / "pets" / "fog" / "4")
    with pytest.raises(UserError, match="pets/fog/5 is missing: expected pets/<task>/<class>/"):
        pets.open("fog")


@pytest.mark.parametrize("data", ["original", "original.npy"])
def test_names_of_arrays_need_no_suffix(tmp_path: Path, data: str) -> None:
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine" / "original.npy", np.zeros((4, 32, 32, 3), np.uint8))
    np.save(tmp_path / "mine" / "labels.npy", np.arange(4))
    found = own("arrays", tmp_path, folder="mine", data=data, labels="labels", classes=4, images=4)
    assert len(found.open("mine").ids) == 4
