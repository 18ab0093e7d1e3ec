"""A cell's key changes with the images behind the same names."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support import trees
from tests.support.cli import Cli
from tta_bench.data.cache import CachedImages
from tta_bench.data.images import ArrayImages, fingerprint

SUITE = """
name: mine
about: a test
model: none
batch_size: 8
tasks: [fog]
data: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}
methods: {source: {}}
"""


def test_the_same_pixels_have_the_same_fingerprint() -> None:
    pixels = np.arange(40 * 3 * 4, dtype=np.uint8).reshape(40, 3, 2, 2)
    labels, ids = np.zeros(40, np.int64), [str(i) for i in range(40)]
    found = fingerprint(ArrayImages(pixels, labels, ids))
    assert found == fingerprint(ArrayImages(pixels.copy(), labels, ids))
    assert found != fingerprint(ArrayImages(pixels + 1, labels, ids))
    assert found != fingerprint(ArrayImages(pixels, np.arange(40), ids)), "labels decide the score"


def test_folders_and_tars_of_the_same_files_are_the_same_images(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path / "folders")
    trees.packed(home / "fog", tmp_path / "tars" / "ImageNet-C" / "fog.tar", "fog")
    sets = [trees.partial("imagenet-c", tmp_path / name, severity=5).open("fog") for name in ("folders", "tars")]
    assert fingerprint(sets[0]) == fingerprint(sets[1]) != ""


def test_an_unreadable_file_gives_an_empty_fingerprint(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path, classes=1, each=1)
    (file,) = home.rglob("*.JPEG")
    file.write_bytes(b"no image")
    assert fingerprint(trees.partial("imagenet-c", tmp_path, severity=5).open("fog")) == ""


def test_a_fingerprint_builds_no_cache(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path)
    images = trees.partial("imagenet-c", tmp_path, severity=5).open("fog")
    cached = CachedImages(images, tmp_path / "cache", "fog")  # type: ignore[arg-type]
    assert fingerprint(cached) == fingerprint(images)
    assert not (tmp_path / "cache").exists()


def test_other_images_of_the_same_names_run_again(cli: Cli, tmp_path: Path) -> None:
    home = trees.cifar_c(tmp_path)
    (tmp_path / "suite.yaml").write_text(SUITE)
    words = ("run", "--suite", tmp_path / "suite.yaml", "--data-root", tmp_path, "--out", tmp_path / "run")
    words += ("--model", "digits-vit", "--device", "cpu")
    assert cli(*words)[0] == 0
    assert "Reused 1 of 1 cells" in " ".join(cli(*words)[1].split())
    pixels = np.load(home / "fog.npy")
    np.save(home / "fog.npy", 255 - pixels)
    status, shown, _ = cli(*words)
    assert (status, "Reused" in shown) == (0, False)
    assert "Skipped 1 record: code or data changed since they were made" in " ".join(
        cli("report", tmp_path / "run")[1].split()
    )


def test_a_tree_made_here_differs_from_the_published_one(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    assert data.made_by() == ""
    (home / "make-corrupted.json").write_text("{}")
    assert data.made_by() == "make-corrupted"
