"""CIFAR in its authors' layout, and CIFAR-C made from it."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from benchmarks.photos import npm_cifar10
from tests.support import trees
from tests.support.cli import Cli
from tta_bench.corruptions import corrupt
from tta_bench.datasets import cifar, cifar_train_c, open_dataset
from tta_bench.datasets.cifar import FILES, FOLDERS, LABELS
from tta_bench.errors import UserError

COUNTS = {"train": 20, "test": 10}


def python2(pixels: NDArray[np.uint8], key: str, labels: list[int]) -> bytes:
    """A batch as the published ones were pickled, by Python 2: bytes are strings, and numpy has its old names."""

    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(value)) + value

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    kind = b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
    kind += b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"\x87R"
    shape = number(len(pixels)) + number(3072) + b"\x86"
    array += b"(" + number(1) + shape + kind + b"\x89" + text(pixels.tobytes()) + b"tb"
    listed = b"](" + b"".join(map(number, labels)) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(key.encode()) + listed + b"u."


def write(root: Path, classes: int = 10) -> Path:
    """A small CIFAR, pickled as the published one is."""
    folder = root / FOLDERS[classes]
    folder.mkdir(parents=True)
    rng = np.random.default_rng(classes)
    for (number, split), names in FILES.items():
        for name in names if number == classes else ():
            count = COUNTS[split] // len(names)
            pixels = rng.integers(0, 256, (count, 3072), np.uint8)
            labels = [int(label) for label in rng.integers(0, classes, count)]
            (folder / name).write_bytes(python2(pixels, LABELS[classes], labels))
    return folder


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "IMAGES", COUNTS)
    cifar._load.cache_clear()


@pytest.mark.filterwarnings("ignore:numpy.core is deprecated:DeprecationWarning")  # of pickle.loads
@pytest.mark.parametrize("classes", [10, 100])
def test_both_splits_are_read(tmp_path: Path, classes: int) -> None:
    folder = write(tmp_path, classes)
    test, train = (cifar.clean(tmp_path, classes, split) for split in ("test", "train"))
    stored = pickle.loads((folder / FILES[classes, "test"][0]).read_bytes(), encoding="latin1")
    assert (len(train.ids), len(test.ids)) == (20, 10)
    assert list(test.labels) == stored[LABELS[classes]]
    pixels = test.read(np.array([3]))
    assert np.array_equal(pixels[0], stored["data"][3].reshape(3, 32, 32))
    assert len(pickle.dumps(train)) < 5000  # the pixels are not in it


def _replaced(name: str, content: dict[str, Any]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(pickle.dumps(content))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "test_batch").unlink(), "test_batch is missing: download it again"),
        (lambda folder: (folder / "test_batch").write_bytes(b"no"), "test_batch: not a batch of CIFAR"),
        (_replaced("test_batch", {"data": np.zeros((10, 5), np.uint8)}), "expected 'data' as rows of 3,072 bytes"),
        (_replaced("test_batch", {"data": np.zeros((2, 3072), np.uint8), "labels": [0, 10]}), "a number from 0 to 9"),
        (
            _replaced("test_batch", {"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]}),
            "2 test images, expected 10",
        ),
        (_replaced("test_batch", {"data": Path("x")}), "names pathlib"),
    ],
)
def test_damage_is_named(tmp_path: Path, spoil: Callable[[Path], object], said: str) -> None:
    spoil(write(tmp_path))
    with pytest.raises(UserError, match=said):
        cifar.clean(tmp_path, 10, "test")


def test_missing_archives_name_their_download(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tta-bench download cifar100"):
        cifar.clean(tmp_path, 100, "train")


def test_cifar_c_is_made_with_its_own_strengths(tmp_path: Path, cli: Cli) -> None:
    write(tmp_path)
    words = ("make-corrupted", "--cifar", 10, "--data-root", tmp_path, "--corruptions", "fog,contrast", "--workers", 1)
    assert cli(*words, "--severities", "2,5")[0] == 0
    data = open_dataset({"kind": "cifar-c", "classes": 10, "severity": 5, "allow_partial": True}, ["fog"], tmp_path)
    clean, made = data.originals("fog"), data.open("fog")
    assert list(clean.labels) == list(made.labels)
    (before,), (after,) = (images.read(np.array([4])).transpose(0, 2, 3, 1) for images in (clean, made))
    assert np.array_equal(after, corrupt(before, "fog", 5, image_id="test/00004", scale="small"))
    assert data.made_by() == "make-corrupted"
    assert data.source_images().split == "train"  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="has severities 2, 5, not 3"):
        data.at_severity(3).open("fog")
    with pytest.raises(UserError, match=r"snow.npy is missing"):
        data.open("snow")
    status, out, _ = cli(*words, "--severities", "2,5")
    assert (status, "0 files written" in out, "2 existed" in out) == (0, True, True)
    status, _, err = cli(*words, "--severities", "1")
    assert (status, "was made with severities 2, 5" in err) == (2, True)
    status, _, err = cli(*words[:-2], "--from", tmp_path)
    assert (status, "--from does not apply to --cifar" in err) == (2, True)


def test_train_photographs_are_corrupted_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setattr(cifar_train_c, "SOURCE_IMAGES", 8)
    cifar_train_c._corrupted.cache_clear()
    options = {"kind": "cifar-train-c", "classes": 10, "severity": 5, "images": 6}
    data = open_dataset(options, ["spatter"], tmp_path)
    clean, made, source = data.originals("spatter"), data.open("spatter"), data.source_images()
    assert clean is not None
    assert (len(made.ids), len(source.ids)) == (6, 8)
    assert not set(clean.ids) & set(source.ids)
    assert {name.partition("/")[0] for name in clean.ids} == {"train"}
    assert list(clean.labels) == list(made.labels)
    (before,), (after,) = (images.read(np.array([4])).transpose(0, 2, 3, 1) for images in (clean, made))
    assert np.array_equal(after, corrupt(before, "spatter", 5, image_id=clean.ids[4], scale="small"))
    assert data.sized(64).open("spatter").read(np.array([0, 5])).shape == (2, 3, 64, 64)
    with pytest.raises(UserError, match="cifar-100-python is missing: run `tta-bench download cifar100`"):
        open_dataset({**options, "classes": 100}, ["spatter"], tmp_path).open("spatter")


def test_a_downloaded_tree_is_not_written_into(tmp_path: Path, cli: Cli) -> None:
    write(tmp_path)
    (tmp_path / "CIFAR-10-C").mkdir()
    np.save(tmp_path / "CIFAR-10-C" / "fog.npy", np.zeros(3))
    status, _, err = cli("make-corrupted", "--cifar", 10, "--data-root", tmp_path, "--workers", 1)
    assert (status, "this command did not make it" in err) == (2, True)


def test_the_npm_package_becomes_the_authors_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package, rng = tmp_path / "package", np.random.default_rng(0)
    package.mkdir()
    rows = {name: rng.integers(0, 256, (4, 1024, 3), np.uint8) for name in FILES[10, "train"]}
    rows["test_batch"] = rng.integers(0, 256, (10, 1024, 3), np.uint8)
    for name, pixels in rows.items():
        Image.fromarray(pixels).save(package / f"{name}.png")
    for split, file in npm_cifar10.LABELS.items():
        (package / file).write_text(json.dumps([row % 10 for row in range(COUNTS[split])]))
    monkeypatch.setattr("sys.argv", ["npm_cifar10", str(package), str(tmp_path / "data")])
    npm_cifar10.main()
    train = cifar.clean(tmp_path / "data", 10, "train")
    assert np.array_equal(train.read(np.array([6]))[0], rows["data_batch_2"][2].reshape(32, 32, 3).transpose(2, 0, 1))
    assert list(train.labels) == [row % 10 for row in range(20)]
    assert "train: 20 images" in capsys.readouterr().out


@pytest.mark.parametrize("has_train", [False, True])
def test_check_names_the_source_images(cli: Cli, tmp_path: Path, has_train: bool) -> None:
    """The clean images that streams are made from, unless the train images are there."""
    home = trees.cifar_c(tmp_path)
    np.save(home / "original.npy", np.zeros((20, 32, 32, 3), np.uint8))
    if has_train:
        write(tmp_path)
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: mine\nabout: a test\nmodel: digits-vit\nbatch_size: 8\ntasks: [fog]\n"
        "data: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}\nmethods: {eata: {}}\n"
    )
    _, shown, _ = cli("check", "--suite", suite, "--data-root", tmp_path)
    place = "cifar-10-batches-py/data_batch_1 and 4 more" if has_train else "CIFAR-10-C/original.npy and 1 more"
    assert f"source images: 20 images of {tmp_path}/{place}".replace(" ", "") in "".join(shown.split())
