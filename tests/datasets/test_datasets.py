"""What every dataset promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import trees
from tta_bench.datasets import Dataset, kind, kinds, open_dataset
from tta_bench.datasets.imagenet import wnids
from tta_bench.errors import UserError
from tta_bench.identity import code


def test_the_code_of_one_kind_leaves_the_cells_of_the_others_valid() -> None:
    every = {name: kind(name) for name in kinds().names()}
    for name, cls in every.items():
        found = code._closure(cls.code, {"tta_bench"})
        own = {base.__module__ for base in cls.__mro__}  # a kind may be a part of another one
        assert not found & ({other.__module__ for other in every.values()} - own), name
        assert "tta_bench.datasets" not in found


EVERY_KIND: list[dict[str, Any]] = [
    {"kind": "imagenet-c", "severity": 5},
    {"kind": "class-folders", "folder": "imagenet-r", "classes": 200, "images": 30000},
    {"kind": "file-list", "folder": "VisDA-2021", "list": "val.txt", "images": 17304},
    {"kind": "office-home"},
    {"kind": "cifar-c", "classes": 10, "severity": 5},
]


@pytest.mark.parametrize("config", EVERY_KIND, ids=lambda config: config["kind"])
def test_a_data_root_is_asked_for_in_one_line(config: dict[str, Any], tmp_path: Path) -> None:
    task = open_dataset(config, (), None).tasks()[0]
    for root, said in (
        (None, "this suite needs --data-root DIR with "),
        (tmp_path / "none", "none is not a folder: expected one with "),
        (tmp_path, "no data for this suite in --data-root .*: expected "),
    ):
        for call in (Dataset.open, Dataset.inspect):
            with pytest.raises(UserError, match=said) as caught:
                getattr(open_dataset(config, [task], root), call.__name__)(task)
            assert "\n" not in str(caught.value)
    published = open_dataset(config, (), None).published(task)
    assert published is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"severity": 6}, "data: kind .*: severity: expected 1 to 5, got 6"),
        ({"severity": True}, "data: kind .*: severity: expected 1 to 5, got True"),
        ({"allow_partial": "yes"}, "data: kind .*: allow_partial: expected true or false"),
        ({"allow_partal": True}, "has no option 'allow_partal'; did you mean 'allow_partial'"),
        ({"kind": "class-folders"}, "kind 'class-folders' has no option 'severity'"),
        ({"kind": ["x"]}, r"data: unknown kind '\['x'\]'"),
        ({5: 5}, "kind 'imagenet-c' has no option 5"),
        ({"kind": "cifar-c", "classes": 20}, "data: kind .*: classes: expected 10 or 100, got 20"),
    ],
)
def test_wrong_options_are_named(change: dict[Any, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        open_dataset({"kind": "imagenet-c", "severity": 5, **change}, (), None)


def test_no_images_at_all_are_refused_by_every_kind(tmp_path: Path) -> None:
    """A partial set may be small, but an empty stream would fail later, with a less helpful error."""
    for folder in ("ImageNet-C/fog/5", "ImageNet-val", "OfficeHome/Art", "OfficeHome/Clipart", "imagenet-r"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "imagenet-r" / wnids()[0]).write_text("a file of a class's name")
    trees.visda(tmp_path, [])
    home = trees.cifar_c(tmp_path, block=0)
    imagenet_c = trees.partial("imagenet-c", tmp_path, severity=5)
    office_home = trees.partial("office-home", tmp_path)
    imagenet_r = trees.partial("class-folders", tmp_path, folder="imagenet-r", classes=200, images=30000)
    listed = "val_filelists/imagenet_c_r_o_filelist.txt"
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: imagenet_c.inspect("fog"), "ImageNet-C/fog/5: has no images: expected"),
        (imagenet_c.source_images, "ImageNet-val: has no images: expected"),
        (lambda: office_home.inspect("Art-to-Clipart"), "Clipart: has no images"),
        (lambda: office_home.source_images("Art-to-Clipart"), "Art: has no images"),
        (lambda: imagenet_r.inspect("imagenet-r"), "imagenet-r: has no images"),
        (imagenet_r.class_mask, "imagenet-r: has no class folders"),
        (
            lambda: trees.partial("file-list", tmp_path, folder="VisDA-2021", list=listed, images=1).open("VisDA-2021"),
            "filelist.txt: has no line",
        ),
        (
            lambda: trees.partial("cifar-c", tmp_path, classes=10, severity=1).open("fog"),
            f"{home}/labels.npy is empty",
        ),
    ]
    for call, said in calls:
        with pytest.raises(UserError, match=said):
            call()


def test_every_kind_can_be_cached_and_read_by_workers(tmp_path: Path) -> None:
    from tta_bench.data.cache import CachedImages
    from tta_bench.data.loading import read_ahead

    home = trees.imagenet_c(tmp_path / "folders")
    trees.packed(home / "fog", tmp_path / "tars" / "fog.tar", "fog")
    trees.cifar_c(tmp_path)
    folders, packed = (trees.partial("imagenet-c", tmp_path / d, severity=5).open("fog") for d in ("folders", "tars"))
    cifar = trees.partial("cifar-c", tmp_path, classes=10, severity=5).sized(40).open("fog")
    for name, images in (("folders", folders), ("tars", packed), ("cifar", cifar)):
        cached: Any = CachedImages(images, tmp_path / "cache", name, workers=0)  # type: ignore[arg-type]
        assert np.array_equal(trees.everything(cached), trees.everything(images))
        plan = [np.array([3, 1]), np.array([0])]
        assert [len(batch) for batch in read_ahead(images, plan, workers=2)] == [2, 1]
