"""Finished results are never lost, and damaged ones are never used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.records import changed, changed_cell, keep, make_record, predict
from tta_bench.errors import UserError
from tta_bench.files import process_name, write_whole
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import SCHEMA
from tta_bench.records.store import Store
from tta_bench.report.runs import Runs
from tta_bench.runs.resume import is_finished


def predictions() -> Predictions:
    return predict([True, False, True, True])


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    record = keep(store, make_record("sar"), predictions())
    assert store.find(record.cell) == record
    assert store.records() == [record]
    assert np.array_equal(store.predictions(record).prediction, predictions().prediction)
    assert np.array_equal(np.load(store.prediction_file(record.cell))["prediction"], predictions().prediction)


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
    assert store.find(changed_cell(record.cell, **change)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema": 1}', '{"schema": 99}'])
def test_a_damaged_record_is_named(tmp_path: Path, damage: str) -> None:
    store, record = Store.create(tmp_path / "run", "s"), make_record("sar")
    store.save(record, None)
    (path,) = store.cells.glob("*.json")
    path.write_text(damage)
    with pytest.raises(UserError, match=rf"{path.name}: "):
        store.records()


def test_an_edited_record_is_noticed(tmp_path: Path) -> None:
    store, record = Store.create(tmp_path / "run", "s"), make_record("sar")
    store.save(record, None)
    (path,) = store.cells.glob("*.json")
    content = json.loads(path.read_text())
    content["cell"]["seed"] = 7
    path.write_text(json.dumps(content))
    with pytest.raises(
        UserError, match="its digest does not match its content: the same `tta-bench run` moves it aside"
    ):
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


def test_unusable_folders_are_refused(tmp_path: Path) -> None:
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


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
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
    store = Store.create(tmp_path / "run", "s")
    record = keep(store, make_record("sar"))
    (path,) = store.cells.glob("*.npy")
    path.write_bytes(damage)
    with pytest.raises(UserError, match=rf"{path.name}: damaged, its digest differs from the one in its record"):
        store.predictions(record)
    path.unlink()
    with pytest.raises(UserError, match=rf"{path.name}: predictions cannot be read"):
        store.predictions(record)


def test_a_file_of_another_shape_allocates_no_memory(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    record = keep(store, make_record("sar"))
    content = store.prediction_file(record.cell).read_bytes()
    with pytest.raises(UserError, match="x.npy: expected predictions for 1,099,511,627,776 images, found another file"):
        Predictions.from_bytes(content, 2**40, "x.npy")


@pytest.mark.parametrize("left", [0, 30, 300, -1])
def test_torn_predictions_are_noticed(tmp_path: Path, left: int) -> None:
    store = Store.create(tmp_path / "run", "s")
    assert not is_finished(make_record("sar"), store)
    record = keep(store, make_record("sar"))
    assert is_finished(record, store)
    path = store.prediction_file(record.cell)
    path.write_bytes(path.read_bytes()[:left])
    assert not is_finished(record, store)


def flips(content: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Copies of some bytes with one bit changed in each."""
    rng = np.random.default_rng(seed)
    for place, bit in zip(rng.integers(len(content), size=count), rng.integers(8, size=count), strict=True):
        changed = bytearray(content)
        changed[place] ^= 1 << int(bit)
        yield bytes(changed)


def test_no_flipped_bit_goes_unnoticed(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    record = keep(store, make_record("sar"))
    files = [store.prediction_file(record.cell), store.prediction_file(record.cell).with_suffix(".json")]
    for file in files:
        whole = file.read_bytes()
        for content in flips(whole, 400):
            file.write_bytes(content)
            with pytest.raises(UserError) as caught:
                Runs([store.folder])
            assert str(file) in str(caught.value)
        file.write_bytes(whole)
    assert Runs([store.folder]).records == [record]


@pytest.mark.parametrize("part", [f'"schema": {SCHEMA}'.encode(), b'"digest"', b'"status": "done"'])
def test_no_flipped_bit_blocks_a_folder(tmp_path: Path, part: bytes) -> None:
    """Not even one that makes the record look like that of another version."""
    store = Store.create(tmp_path / "run", "s")
    file = store.prediction_file(keep(store, make_record("sar")).cell).with_suffix(".json")
    whole = file.read_bytes()
    first = whole.index(part)
    for place in range(first, first + len(part)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            file.write_bytes(changed)
            assert store.set_damaged_aside()
            assert not file.exists()


def test_an_edited_accuracy_is_refused_even_with_a_fresh_digest(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    record = keep(store, make_record("sar", 0.5))
    path = store.prediction_file(record.cell).with_suffix(".json")
    path.write_bytes(changed(record, top1=0.99).to_bytes())
    with pytest.raises(UserError, match=r"its top1 is 0\.99, but its predictions give 0\.5"):
        Runs([store.folder])
    (edited,) = store.records()
    assert not is_finished(edited, store), "a run does it again"


def test_predictions_of_another_cell_are_refused(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    one, other = (keep(store, make_record(name, share)) for name, share in (("sar", 0.5), ("tent", 0.7)))
    store.prediction_file(one.cell).write_bytes(store.prediction_file(other.cell).read_bytes())
    with pytest.raises(UserError, match="its digest differs from the one in its record"):
        Runs([store.folder])


def test_a_record_under_another_name_is_refused(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    one, other = (keep(store, make_record(name)) for name in ("sar", "tent"))
    place = store.prediction_file(other.cell).with_suffix(".json")
    place.write_bytes(one.to_bytes())
    with pytest.raises(UserError, match="is the record of another cell"):
        store.records()
    moved = store.set_damaged_aside()
    assert {path.suffix for path in moved} == {".json", ".npy"}
    assert [record.cell.spec.method for record in store.records()] == ["sar"]


def test_labels_that_differ_within_a_stream_are_refused(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    keep(store, make_record("sar"))
    keep(store, make_record("tent"), predict(np.arange(100) < 50, label=np.ones(100)))
    with pytest.raises(UserError, match="its images or labels differ from those of other records of this stream"):
        Runs([store.folder])


def test_two_folders_with_different_results_of_one_cell_are_refused(tmp_path: Path) -> None:
    stores = [Store.create(tmp_path / name, "s") for name in ("a", "b")]
    for store, share in zip(stores, (0.5, 0.6), strict=True):
        keep(store, make_record("sar", share))
    with pytest.raises(UserError, match=r"a and .*b hold other results of the same cell"):
        Runs([store.folder for store in stores])


def test_leftovers_of_dead_processes_are_removed(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    host, _ = process_name().rsplit("-", 1)
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    gone = store.cells / f".x.json.{host}-{dead.stdout.strip()}.abc"
    ours = store.cells / f".x.json.{process_name()}.abc"
    elsewhere = store.cells / ".x.json.other-host-1.abc"
    for path in (gone, ours, elsewhere):
        path.touch()
    Store.create(store.folder, "s")
    assert [path.exists() for path in (gone, ours, elsewhere)] == [False, True, True]
