"""What is finished is never lost, and what is damaged is never used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.records import make_record
from tta_bench.errors import UserError
from tta_bench.files import write_whole
from tta_bench.records.record import Predictions
from tta_bench.records.store import Store


def predictions() -> Predictions:
    n = np.arange(4)
    return Predictions(n, n, n[::-1].copy(), n > 1, n.astype(np.float32), n.astype(np.float32))


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    store, record = Store.create(tmp_path / "run", "s"), make_record("sar")
    store.save(record, predictions())
    assert store.find(record.cell) == record
    assert store.records() == [record]
    assert np.array_equal(store.predictions(record.cell).prediction, predictions().prediction)


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"lr": 0.2}},
        {"batch_size": 8},
        {"weights": "other"},
        {"stream": "other"},
        {"seed": 9},
        {"limit": 5},
        {"method_code": "edited"},
        {"data_code": "edited"},
        {"mean": (0.1, 0.1, 0.1)},
        {"suite_version": 2},
        {"device": "cuda"},
        {"harness": "9.9"},
        {"images": "of another tree"},
    ],
)
def test_changed_settings_never_reuse_old_cells(tmp_path: Path, change: dict[str, object]) -> None:
    store, record = Store.create(tmp_path / "run", "s"), make_record("sar")
    store.save(record, None)
    assert store.find(replace(record.cell, **change)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema": 1}', '{"schema": 99}'])
def test_a_damaged_record_is_named(tmp_path: Path, damage: str) -> None:
    store, record = Store.create(tmp_path / "run", "s"), make_record("sar")
    store.save(record, None)
    (path,) = store.cells.glob("*.json")
    path.write_text(damage)
    with pytest.raises(UserError, match=rf"{path.name}.*delete it and run the same command again"):
        store.records()


def test_an_edited_record_is_noticed(tmp_path: Path) -> None:
    store, record = Store.create(tmp_path / "run", "s"), make_record("sar")
    store.save(record, None)
    (path,) = store.cells.glob("*.json")
    content = json.loads(path.read_text())
    content["cell"]["seed"] = 7
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="key does not fit"):
        store.records()


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def crash(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is a file, expected a folder"):
        Store.create(tmp_path / "file", "s")
    with pytest.raises(UserError, match="holds other files and no manifest"):
        Store.create(tmp_path, "s")
    Store.create(tmp_path / "run", "s")
    with pytest.raises(UserError, match="belongs to suite 's', not 't'"):
        Store.create(tmp_path / "run", "t")
    with pytest.raises(UserError, match="is not a run folder"):
        Store.open(tmp_path / "nothing")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot be written"):
        Store.create(tmp_path / "file" / "run", "s")


def test_fresh_moves_the_old_folder_aside(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    store.save(make_record("sar"), predictions())
    first = store.set_aside()
    assert first is not None
    assert len(list((first / "cells").iterdir())) == 2
    again = Store.create(tmp_path / "run", "s").set_aside()
    assert again not in (None, first)
    assert Store(tmp_path / "none").set_aside() is None


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"no zip at all"])
def test_damaged_predictions_are_named(tmp_path: Path, damage: bytes) -> None:
    store, record = Store.create(tmp_path / "run", "s"), make_record("sar")
    store.save(record, predictions())
    (path,) = store.cells.glob("*.npz")
    path.write_bytes(damage)
    with pytest.raises(UserError, match=rf"{path.name}: predictions cannot be read"):
        store.predictions(record.cell)


@pytest.mark.parametrize("left", [0, 30, 300, -1])
def test_cut_off_predictions_are_seen_without_reading_them(tmp_path: Path, left: int) -> None:
    store, record = Store.create(tmp_path / "run", "s"), make_record("sar")
    assert not store.has_predictions(record.cell)
    store.save(record, predictions())
    assert store.has_predictions(record.cell)
    path = store.prediction_file(record.cell)
    path.write_bytes(path.read_bytes()[:left])
    assert not store.has_predictions(record.cell)
