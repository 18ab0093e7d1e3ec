"""`tta-bench download` from the command line, and the way from a download to a report."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support import archives, trees
from tests.support.checkout import ROOT
from tests.support.cli import Cli
from tests.support.downloads import published_table
from tests.support.servers import Website, serve
from tta_bench.cli import download
from tta_bench.download import space, table
from tta_bench.runs.site import data_root

SUITE = """
name: made
about: two corruptions of a small CIFAR-10-C
data: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}
tasks: [fog, contrast]
model: digits-vit
batch_size: 16
methods: {source: {}, tent: {lr: 1e-3}}
"""


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Website:
    """A small CIFAR-10-C as Zenodo publishes it: one tar of arrays. The table states its size and md5."""
    home = trees.cifar_c(tmp_path / "made", corruptions=("fog", "contrast"), block=32)
    content = trees.packed(home, tmp_path / "made.tar", "CIFAR-10-C").read_bytes()
    entry = table.published()["cifar10-c"]
    file = replace(entry.files[0], bytes=len(content), md5=hashlib.md5(content).hexdigest())
    known = {**table.published(), "cifar10-c": replace(entry, files=(file,))}
    monkeypatch.setattr(table, "published", lambda: known)
    return Website({"CIFAR-10-C.tar": content})


def test_from_a_download_to_a_report(cli: Cli, published: Website, tmp_path: Path) -> None:
    suite, root, out = tmp_path / "made.yaml", tmp_path / "data", tmp_path / "run"
    suite.write_text(SUITE)
    where = ("--suite", suite, "--data-root", root)
    status, _, said = cli("run", *where, "--out", out)
    assert status == 2
    assert "run `tta-bench download cifar10-c`" in said
    with serve(published) as site:
        site.cut_after = 100_000  # every answer breaks off; the transfer goes on
        status, shown, _ = cli("download", *where, "--mirror", site.address)
    assert status == 0, shown
    assert len(site.bodies) > 5
    assert re.search(r"Takes [\d.]+ MB of disk \(needs [\d.]+ MB meanwhile\); [\d.]+ GB are free in ", shown)
    assert f"cifar10-c: {root / 'CIFAR-10-C'} (md5 " in shown
    assert cli("download", *where)[:2] == (
        0,
        f"{suite}: nothing is missing; `tta-bench check --suite {suite}` checks the files\n",
    )
    status, shown, _ = cli("check", *where)
    assert (status, shown.count("ERROR")) == (0, 0), shown
    status, shown, _ = cli("run", *where, "--out", out)
    assert status == 0, shown
    status, shown, _ = cli("report", out)
    assert status == 0
    assert re.search(r"tent .*\d\.\d", shown)


def test_names_and_suites_are_checked(cli: Cli, tmp_path: Path) -> None:
    where = ("--data-root", tmp_path)
    assert "unknown dataset 'cifar10c'; did you mean 'cifar10-c'?" in cli("download", "cifar10c", *where)[2]
    assert "expected names of datasets, or --suite NAME (known: cifar10, " in cli("download", *where)[2]
    assert "unknown suite" in cli("download", "--suite", "none", *where)[2]
    assert "nothing is missing" in cli("download", "--suite", "digits-c-5", *where)[1]
    assert "--mirror lab: expected an address" in cli("download", "imagenet-r", "--mirror", "lab", *where)[2]


def test_what_no_program_can_fetch_has_a_page_and_a_layout(cli: Cli, tmp_path: Path) -> None:
    status, shown, _ = cli("download", "office-home", "imagenet-val", "--data-root", tmp_path)
    assert status == 1
    assert "Get it at https://www.image-net.org/download.php" in shown
    assert f"expected {tmp_path}/ImageNet-val/<wnid>/ILSVRC2012_val_*.JPEG" in shown
    assert f"expected {tmp_path}/OfficeHome/<Art, Clipart, Product, Real World>/<class>/*.jpg" in shown
    (tmp_path / "ImageNet-val").mkdir()
    assert cli("download", "imagenet-val", "--data-root", tmp_path)[:2] == (0, "")


def test_a_full_disk_is_refused_before_anything_is_asked(
    cli: Cli, published: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "free", lambda folder: 1_000_000)
    with serve(published) as site:
        status, _, said = cli("download", "cifar10-c", "--mirror", site.address, "--data-root", tmp_path / "data")
    assert (status, site.seen) == (2, [])
    assert "this download needs " in said
    assert "has only 1.0 MB left: make room first" in said


def test_a_suite_fetches_only_the_parts_it_lacks(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path, ("gaussian_noise", "shot_noise", "impulse_noise"), classes=1, each=1)
    (tmp_path / "ImageNet-C" / "weather.tar").touch()
    assert download.missing("imagenet-c-5", tmp_path) == ["imagenet-c-blur", "imagenet-c-digital"]
    assert download.missing("office-home", tmp_path) == ["office-home"]
    assert download.missing("visda-2021", tmp_path) == ["visda-2021"]
    assert download.missing("imagenet-r", tmp_path) == ["imagenet-r"]


def test_an_incomplete_folder_is_left_and_said(cli: Cli, tmp_path: Path) -> None:
    trees.cifar_c(tmp_path, corruptions=("fog",))
    status, shown, _ = cli("download", "--suite", "cifar10-c-5", "--data-root", tmp_path)
    assert status == 1
    assert f"{tmp_path / 'CIFAR-10-C'} exists and is kept" in shown
    assert "cifar10-c-5 still lacks something: `tta-bench check --suite cifar10-c-5` says what" in shown


def test_sizes_that_nobody_publishes_are_asked_for(cli: Cli, tmp_path: Path) -> None:
    body = archives.npy(np.zeros(1000, np.uint8))
    with serve(Website({"near_focus.tar.gz": body})) as site:
        found = table.published()["imagenet-3dcc"].files[:2]
        wanted = [(file, f"{site.address}/{file.name}", 0) for file in found]
        assert space.need(wanted) == space.Need(len(body), 2 * len(body), 1)


def test_the_data_root_is_given_or_in_the_environment_or_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTA_BENCH_DATA", "/there")
    assert (data_root(), data_root("/here")) == (Path("/there"), Path("/here"))
    monkeypatch.setenv("TTA_BENCH_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    if os.name == "posix" and os.uname().sysname == "Linux":
        assert data_root() == Path("/caches/tta-bench/data")


def test_every_published_file_can_be_checked_and_placed() -> None:
    files = [file for entry in table.published().values() for file in entry.files]
    names = [file.name for file in files]
    assert len(set(names)) == len(names), "a mirror has all of them in one folder"
    assert len({file.brings for file in files}) == len(files)
    for file in files:
        assert file.address.startswith(("https://", "http://csr.bu.edu/"))
        assert bool(file.source) == bool(file.checksum), file.address
        assert not file.is_unpacked or file.name.endswith((".tar", ".tar.gz", ".zip"))


def test_the_table_is_in_the_docs() -> None:
    assert published_table() in (ROOT / "docs/datasets.md").read_text()
