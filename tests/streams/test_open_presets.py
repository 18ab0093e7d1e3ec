"""The open-set presets from files to verified tables, with unknown images in the forms in which they are published."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.support import trees
from tests.support.cli import Cli
from tta_bench.records.store import Store

KNOWN = 100  # images of a task
SUITE = (
    "name: small-cifar\nabout: small\ntasks: [fog, snow]\nmodel: digits-vit\nbatch_size: 200\n"
    "data: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}\nmethods: {source: {}, tent: {}}\n"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10-C, SVHN-C as arrays of five severities, MNIST as grey pictures, NINCO as folders of classes."""
    home = tmp_path_factory.mktemp("data")
    trees.cifar_c(home, corruptions=("fog", "snow"), block=KNOWN)
    (home / "svhn-c").mkdir()
    rng = np.random.default_rng(1)
    for task in ("fog", "snow"):
        np.save(home / "svhn-c" / f"{task}.npy", rng.integers(0, 256, (5 * KNOWN, 32, 32, 3), dtype=np.uint8))
    for number in range(KNOWN):
        file = home / "mnist" / str(number % 10) / f"{number:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        trees.picture(number, (28, 28)).convert("L").save(file)
    for number in range(30):
        trees.write(home / "ninco" / f"class_{number % 3}" / f"{number}.jpg", number)
    (home / "suite.yaml").write_text(SUITE)
    return home


@pytest.mark.parametrize(
    ("preset", "known", "unknown"),
    [("stamp", 100, 25), ("unient", 200, 200), ("sotta-far", 100, 100), ("come-open", 30, 30)],
)
def test_a_preset_runs_from_files_to_verified_tables(
    root: Path, tmp_path: Path, cli: Cli, preset: str, known: int, unknown: int
) -> None:
    run = tmp_path / "run"
    status, _, err = cli(
        "run", "--suite", root / "suite.yaml", "--data-root", root, "--scenario", preset, "--out", run
    )  # fmt: skip
    assert status == 0, err
    store = Store.open(run)
    records = store.records()
    assert len(records) == (2 if preset == "unient" else 4)
    for record in records:
        found = store.predictions(record)
        assert found.unknown is not None
        assert (len(found), len(found.unknown), record.scores.samples) == (known, unknown, known + unknown)
    rows = list(csv.DictReader((run / "report" / "open.csv").read_text().splitlines()))
    assert [row["method"] for row in rows] == ["source", "tent"]
    assert {float(row["unknown %"]) for row in rows} == {20.0 if preset == "stamp" else 50.0}
    assert all(0 <= float(row[name]) <= 100 for row in rows for name in ("AUROC %", "FPR95 %", "H %"))
    status, shown, err = cli("verify", run, "--data-root", root)
    assert (status, err) == (0, ""), shown


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("open:0.2,data=cifar10-c-5", "shows classes that the model of small-cifar knows"),
        ("open:0,data=mnist", "expected a share above 0 and at most 0.99, got '0'"),
        ("open:1.5,data=mnist", "expected a share above 0 and at most 0.99, got '1.5'"),
        ("open:0.2,data=lsun-c", "there is no"),
        ("open:0.9,data=ninco", "need 900 of unknown classes, and 'ninco' has 30"),
    ],
)
def test_bad_input_is_one_line(root: Path, tmp_path: Path, cli: Cli, scenario: str, message: str) -> None:
    status, _, err = cli(
        *("run", "--suite", root / "suite.yaml", "--data-root", root, "--tasks", "fog"),
        *("--methods", "source", "--scenario", scenario, "--out", tmp_path / "run"),
    )
    assert (status, err.count("\n")) == (2, 1), err
    assert message in err
