"""Unreadable files and broken links are named in one line; everything beside them is still checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import trees
from tests.support.cli import Cli
from tests.support.denied import denied
from tests.support.records import keep, make_record
from tta_bench.datasets import Dataset
from tta_bench.datasets.files import decode
from tta_bench.datasets.imagenet import wnids
from tta_bench.datasets.transform import photograph
from tta_bench.errors import UserError
from tta_bench.records.store import Store

R: dict[str, Any] = {"folder": "imagenet-r", "classes": 200, "images": 30000}
VISDA: dict[str, Any] = {"folder": "VisDA-2021", "list": "val_filelists/imagenet_c_r_o_filelist.txt", "images": 2}
HEAD = "name: mine\nabout: a test\nmodel: none\nbatch_size: 2\nmethods: {source: {}}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small tree of every kind of data."""
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


CALLS = {
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


@pytest.mark.parametrize(("place", "call"), CALLS.items(), ids=CALLS)
def test_an_unreadable_folder_is_named(root: Path, place: str, call: Any) -> None:
    with denied(root / place), pytest.raises(UserError, match=rf"/{place} cannot be .*\(Permission denied\)") as caught:
        call(root)
    assert "\n" not in str(caught.value)


def test_an_unreadable_data_root_is_named(root: Path) -> None:
    with denied(root), pytest.raises(UserError, match=rf"{root} cannot be entered \(Permission denied\)"):
        trees.partial("imagenet-c", root, severity=5).open("fog")


def test_check_continues_after_an_unreadable_folder_and_run_stops_in_one_line(cli: Cli, root: Path) -> None:
    suite = root / "suite.yaml"
    suite.write_text(f"{HEAD}tasks: [fog, snow]\ndata: {{kind: imagenet-c, severity: 5, allow_partial: true}}\n")
    with denied(root / "ImageNet-C" / "fog"):
        status, shown, _ = cli("check", "--suite", suite, "--data-root", root)
        stopped, _, said = cli("run", "--suite", suite, "--data-root", root, "--out", root / "out")
    assert status == stopped == 2
    assert f"ERROR task fog: folder {root}/ImageNet-C/fog cannot be entered (Permission denied)" in shown
    assert "ok    task snow: 3 classes, 6 images" in shown
    assert (said.count("\n"), "(Permission denied)" in said) == (1, True)


def test_an_unreadable_image_need_not_be_replaced(tmp_path: Path) -> None:
    path = trees.write(tmp_path / "a.jpg")
    with denied(path), pytest.raises(UserError) as caught:
        decode(path, path, photograph(224))
    assert str(caught.value) == f"{path}: cannot be read (Permission denied)"


def test_a_class_folder_that_links_to_itself_is_named(root: Path) -> None:
    link = root / "imagenet-r" / wnids()[5]
    link.symlink_to(link.name)
    data = trees.partial("class-folders", root, **R)
    for call in (lambda: data.open("imagenet-r"), data.class_mask):
        with pytest.raises(UserError, match=f"imagenet-r/{link.name}: a link that cannot be followed"):
            call()


@pytest.mark.parametrize("how", ["a folder", "loop", "dangling"])
def test_a_listed_name_that_is_not_a_file_is_named(root: Path, how: str) -> None:
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
def test_a_broken_link_to_a_tar_is_named_only_if_the_tar_is_needed(root: Path, to: str) -> None:
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
def test_a_broken_link_to_the_data_is_named(tmp_path: Path, to: str) -> None:
    (tmp_path / "ImageNet-C").symlink_to(to)
    with pytest.raises(UserError, match=re.escape(f"{tmp_path}/ImageNet-C: a link that cannot be followed")):
        trees.partial("imagenet-c", tmp_path, severity=5).open("fog")


def test_an_invalid_file_name_counts_as_missing(tmp_path: Path) -> None:
    data: Dataset = trees.partial("class-folders", tmp_path, **{**R, "folder": "a\0b"})
    with pytest.raises(UserError, match="no data for this suite"):
        data.open("a\0b")


@pytest.mark.parametrize("words", [("report",), ("verify",), ("status",), ("pack", "--out", "x.zip")])
def test_a_run_folder_that_may_not_be_read_is_one_line(words: tuple[str, ...], tmp_path: Path, cli: Cli) -> None:
    store = Store.create(tmp_path / "run", "s")
    keep(store, make_record("source"))
    with denied(store.folder):
        status, _, err = cli(words[0], store.folder, *words[1:])
    assert (status, err) == (2, f"tta-bench: error: {store.manifest}: Permission denied\n")
    with denied(store.cells):
        status, _, err = cli(words[0], store.folder, *words[1:])
    assert (status, err) in ((0, ""), (2, f"tta-bench: error: {store.cells}: Permission denied\n"))


def test_a_file_in_place_of_the_records_is_one_line(tmp_path: Path, cli: Cli) -> None:
    store = Store.create(tmp_path / "run", "s")
    store.cells.rmdir()
    store.cells.touch()
    status, _, err = cli("report", store.folder)
    assert (status, err) == (2, f"tta-bench: error: {store.cells}: Not a directory\n")


def test_a_figure_that_may_not_be_written_is_one_line(tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("matplotlib")
    store = Store.create(tmp_path / "run", "s")
    keep(store, make_record("source"))
    with denied(store.folder, to=0o555):
        status, _, err = cli("figure", store.folder, "pareto")
    stem = store.folder / "figures" / "pareto"
    assert (status, err) == (
        2,
        f"tta-bench: error: {stem} cannot be written (Permission denied): choose another --out\n",
    )
