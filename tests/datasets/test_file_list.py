"""VisDA-2021 by its file list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import trees
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError


def visda(root: Path, images: int, **options: Any) -> Dataset:
    listed = {"folder": "VisDA-2021", "list": "val_filelists/imagenet_c_r_o_filelist.txt", "images": images}
    return open_dataset({"kind": "file-list", **listed, **options}, (), root)


def test_a_file_list_with_roots_and_unknown_labels(tmp_path: Path) -> None:
    lines = [("val_data/imagenet_c_and_r/n01443537/a b.jpg", 1), ("val_data/imagenet_c_and_r/n01484850/c.jpg", 2)]
    lines += [("val_data/imagenet_o/n01443537/d.jpg", 1000), ("val_data/imagenet_o/n01443537/e.jpg", 1234)]
    trees.visda(tmp_path, lines)
    images = visda(tmp_path, 4).open("VisDA-2021")
    assert images.ids == [path for path, _ in lines]
    assert list(images.labels) == [1, 2, 1000, 1000]  # 1000: no model predicts it, so it is always wrong
    assert trees.everything(images).shape == (4, 3, 224, 224)
    chosen = visda(tmp_path, 2, only="imagenet_c_and_r")
    assert list(chosen.open("VisDA-2021").labels) == [1, 2]
    assert chosen.transform == Transform(256, 224, squash=True)


def test_file_lists_name_bad_lines_and_missing_files(tmp_path: Path) -> None:
    home = trees.visda(tmp_path, [("val_data/a.jpg", 1), ("val_data/b.jpg", 2)], missing=["val_data/b.jpg"])
    with pytest.raises(UserError, match="1 of 2 files in .*filelist.txt are missing: val_data/b.jpg"):
        visda(tmp_path, 2).open("VisDA-2021")
    with pytest.raises(UserError, match="filelist.txt: 2 lines, expected 17,304"):
        visda(tmp_path, 17304).open("VisDA-2021")
    with pytest.raises(UserError, match="has no line with the folder 'objectnet'"):
        visda(tmp_path, 2, only="objectnet").open("VisDA-2021")
    file = home / "val_filelists" / "imagenet_c_r_o_filelist.txt"
    for line in ("val_data/a.jpg", "val_data/a.jpg -1", "val_data/a.jpg cat", f"val_data/a.jpg {'7' * 23}"):
        file.write_text(f"val_data/a.jpg 1\n{line}\n")
        with pytest.raises(UserError, match="line 2: expected 'path label', got"):
            visda(tmp_path, 2).open("VisDA-2021")
