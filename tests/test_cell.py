"""A cell's key changes with all that can change its result: images behind the same names, and code at any distance."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests import trees
from tests.conftest import Cli
from tests.records import make_cell
from tta_bench.data.cache import CachedImages
from tta_bench.data.images import ArrayImages, fingerprint
from tta_bench.records import cell as cells
from tta_bench.records.cell import HARNESS, code_hash, harness_hash

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


def test_a_file_that_cannot_be_read_is_left_to_who_reads_it(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path, classes=1, each=1)
    (file,) = home.rglob("*.JPEG")
    file.write_bytes(b"no image")
    assert fingerprint(trees.partial("imagenet-c", tmp_path, severity=5).open("fog")) == ""


def test_no_cache_is_made_for_it(tmp_path: Path) -> None:
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
    assert "1 of 1 cells were there already" in " ".join(cli(*words)[1].split())
    pixels = np.load(home / "fog.npy")
    np.save(home / "fog.npy", 255 - pixels)
    status, shown, _ = cli(*words)
    assert (status, "were there already" in shown) == (0, False)
    assert "Skipped 1 record: code or data changed since they were made" in " ".join(
        cli("report", tmp_path / "run")[1].split()
    )


def test_a_tree_that_was_made_here_is_told_from_the_published_one(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    assert data.made_by() == ""
    (home / "make-corrupted.json").write_text("{}")
    assert data.made_by() == "make-corrupted"


def test_a_record_without_a_fingerprint_keeps_its_key() -> None:
    assert "images" not in make_cell("sar")._content()
    assert make_cell("sar", images="a").key != make_cell("sar").key


def test_code_that_a_method_borrows_from_another_package_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lender_of_code").mkdir()
    (tmp_path / "lender_of_code" / "__init__.py").touch()
    (tmp_path / "lender_of_code" / "sar.py").write_text("class Sar: pass\n")
    (tmp_path / "borrower_of_code.py").write_text("from lender_of_code.sar import Sar\nclass Mine(Sar): pass\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    packages = frozenset({"lender_of_code", "borrower_of_code"})
    alone, both = code_hash("borrower_of_code"), code_hash("borrower_of_code", packages)
    (tmp_path / "lender_of_code" / "sar.py").write_text("class Sar: changed = True\n")
    code_hash.cache_clear()
    assert code_hash("borrower_of_code") == alone
    assert code_hash("borrower_of_code", packages) != both


def test_the_code_through_which_every_method_runs_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the runner imports is in the list, or plainly shapes no result."""
    shapes_nothing = {"environment", "cell", "errors", "record", "store"}
    runner = cells._source("tta_bench.run.runner")
    assert runner is not None
    imported = {
        name.split(".")[1]
        for name in cells._imports(runner.read_text(), "tta_bench.run.runner", {"tta_bench"})
        if "." in name and cells._source(name)
    }
    assert imported <= {*HARNESS, *shapes_nothing}
    assert all(cells._source(f"tta_bench.{name}") for name in HARNESS)
    before = harness_hash()
    harness_hash.cache_clear()
    monkeypatch.setattr(cells, "HARNESS", HARNESS[1:])
    assert harness_hash() != before
    harness_hash.cache_clear()
