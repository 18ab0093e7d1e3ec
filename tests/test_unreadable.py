"""What may not be read, or leads nowhere, is named in one line; what is beside it is looked at all the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests import trees
from tests.conftest import Cli
from tests.denied import denied
from tta_bench.datasets import Dataset
from tta_bench.datasets.files import decode
from tta_bench.datasets.imagenet import wnids
from tta_bench.datasets.transform import photograph
from tta_bench.errors import UserError

R: dict[str, Any] = {"folder": "imagenet-r", "classes": 200, "images": 30000}
VISDA: dict[str, Any] = {"folder": "VisDA-2021", "list": "val_filelists/imagenet_c_r_o_filelist.txt", "images": 2}
HEAD = "name: mine\nabout: a test\nmodel: none\nbatch_size: 2\nmethods: {source: {}}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A little of every kind of data."""
    trees.imagenet_c(tmp_path, ("fog", "snow"))
    trees.clean_imagenet(tmp_path, "ImageNet/val")
    trees.class_folders(tmp_path, "imagenet-r", trees.some_wnids(2))
    trees.visda(tmp_path, [("val_data/a.jpg", 1), ("val_data/b.jpg", 2)])
    trees.office_home(tmp_path)
    trees.cifar_c(tmp_path)
    (tmp_path / "models").mkdir()
    return tmp_path


def opened(kind: str, task: str, **options: Any) -> Any:
    return lambda root: trees.partial(kind, root, **options).open(task)


LOOKS = {
    "ImageNet-C": opened("imagenet-c", "fog", severity=5),
    "ImageNet-C/fog": opened("imagenet-c", "fog", severity=5),
    "ImageNet-C/fog/5": opened("imagenet-c", "fog", severity=5),
    "ImageNet": lambda root: trees.partial("imagenet-c", root, severity=5).source_images(),
    "imagenet-r": opened("class-folders", "imagenet-r", **R),
    "VisDA-2021": opened("file-list", "VisDA-2021", **VISDA),
    "VisDA-2021/val_data": opened("file-list", "VisDA-2021", **VISDA),
    "VisDA-2021/val_filelists": opened("file-list", "VisDA-2021", **VISDA),
    "OfficeHome": opened("office-home", "Art-to-Clipart"),
    "OfficeHome/Art": opened("office-home", "Art-to-Clipart"),
    "models": lambda root: trees.partial("office-home", root).model_for("Art-to-Clipart"),
    "CIFAR-10-C": opened("cifar-c", "fog", classes=10, severity=5),
}


@pytest.mark.parametrize(("place", "look"), LOOKS.items(), ids=LOOKS)
def test_an_unreadable_folder_is_named(root: Path, place: str, look: Any) -> None:
    with denied(root / place), pytest.raises(UserError, match=rf"/{place} cannot be .*\(Permission denied\)") as caught:
        look(root)
    assert "\n" not in str(caught.value)


def test_an_unreadable_data_root_is_named(root: Path) -> None:
    with denied(root), pytest.raises(UserError, match=rf"{root} cannot be entered \(Permission denied\)"):
        trees.partial("imagenet-c", root, severity=5).open("fog")


def test_check_goes_on_after_an_unreadable_folder_and_run_stops_in_one_line(cli: Cli, root: Path) -> None:
    suite = root / "suite.yaml"
    suite.write_text(f"{HEAD}tasks: [fog, snow]\ndata: {{kind: imagenet-c, severity: 5, allow_partial: true}}\n")
    with denied(root / "ImageNet-C" / "fog"):
        status, shown, _ = cli("check", "--suite", suite, "--data-root", root)
        stopped, _, said = cli("run", "--suite", suite, "--data-root", root, "--out", root / "out")
    assert status == stopped == 2
    assert f"ERROR task fog: folder {root}/ImageNet-C/fog cannot be entered (Permission denied)" in shown
    assert "ok    task snow: 3 classes, 6 images" in shown
    assert (said.count("\n"), "(Permission denied)" in said) == (1, True)


def test_an_unreadable_image_need_not_be_got_again(tmp_path: Path) -> None:
    path = trees.write(tmp_path / "a.jpg")
    with denied(path), pytest.raises(UserError) as caught:
        decode(path, path, photograph(224))
    assert str(caught.value) == f"{path}: cannot be read (Permission denied)"


def test_a_class_folder_that_leads_to_itself_is_named(root: Path) -> None:
    link = root / "imagenet-r" / wnids()[5]
    link.symlink_to(link.name)
    data = trees.partial("class-folders", root, **R)
    for look in (lambda: data.open("imagenet-r"), data.class_mask):
        with pytest.raises(UserError, match=f"imagenet-r/{link.name}: a link that cannot be followed"):
            look()


@pytest.mark.parametrize("how", ["a folder", "loop", "dangling"])
def test_a_listed_name_that_is_no_file_is_named(root: Path, how: str) -> None:
    data = trees.partial("file-list", root, **VISDA)
    folder = root / "VisDA-2021" / "val_data"
    (folder / "unlisted.jpg").symlink_to("nowhere")
    real = folder / "a.jpg"
    real.rename(folder / "elsewhere.jpg")
    real.symlink_to("elsewhere.jpg")
    assert len(data.open("VisDA-2021").ids) == 2, "a link to a file is as good"
    with pytest.raises(UserError, match=rf"{real}: {trees.broken(real, how)}"):
        data.open("VisDA-2021")


@pytest.mark.parametrize("to", ["fog.tar", "nowhere.tar"])
def test_a_tar_that_leads_nowhere_is_named_and_only_where_it_is_needed(root: Path, to: str) -> None:
    home = root / "ImageNet-C"
    trees.packed(home / "snow", home / "weather.tar", "snow")
    data = trees.partial("imagenet-c", root, severity=5)
    (home / "fog.tar").symlink_to(to)
    (home / "gaussian_noise.tar").symlink_to(to)
    assert len(data.open("fog").ids) == 6, "its folder is there"
    (home / "fog").rename(home / "away")
    with pytest.raises(UserError, match=r"fog.tar: a link that cannot be followed"):
        data.open("fog")
    assert len(data.open("snow").ids) == 6


@pytest.mark.parametrize("to", ["ImageNet-C", "nowhere"])
def test_a_home_that_leads_nowhere_is_named(tmp_path: Path, to: str) -> None:
    (tmp_path / "ImageNet-C").symlink_to(to)
    with pytest.raises(UserError, match=re.escape(f"{tmp_path}/ImageNet-C: a link that cannot be followed")):
        trees.partial("imagenet-c", tmp_path, severity=5).open("fog")


def test_a_name_that_no_file_can_have_is_missing(tmp_path: Path) -> None:
    data: Dataset = trees.partial("class-folders", tmp_path, **{**R, "folder": "a\0b"})
    with pytest.raises(UserError, match="no data for this suite"):
        data.open("a\0b")
