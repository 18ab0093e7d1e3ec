"""A finished run is recognised without torch or images, and every change is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tests.support import hubs, trees
from tests.support.works import CPU, requests
from tta_bench.identity import code
from tta_bench.records.cell import Found
from tta_bench.records.store import Store
from tta_bench.runs import found
from tta_bench.runs.bind import Binder
from tta_bench.runs.execute import run_left
from tta_bench.runs.resume import finished
from tta_bench.runs.site import Site
from tta_bench.runs.watcher import Watcher

TREE = (
    "name: mine\nabout: a test\nmodel: none\nbatch_size: 2\ntasks: [fog]\n"
    "data: {kind: imagenet-c, severity: 5, allow_partial: true}\nmethods: {source: {}, eata: {}}\n"
)


@pytest.fixture
def done(tmp_path: Path) -> Path:
    """A finished run on a small tree of images, with a suite, a model and clean images beside it."""
    import timm
    from safetensors.torch import save_file

    trees.imagenet_c(tmp_path)
    trees.clean_imagenet(tmp_path)
    save_file(timm.create_model("test_vit").state_dict(), tmp_path / "vit.safetensors")
    (tmp_path / "suite.yaml").write_text(TREE)
    store = Store.create(tmp_path / "run", "mine")
    run_left(_requests(tmp_path), Binder(_site(tmp_path)), store, Watcher())
    _forget()
    return tmp_path


def _requests(home: Path, **choices: object) -> list:  # type: ignore[type-arg]
    return requests(home / "suite.yaml", model=f"test_vit={home / 'vit.safetensors'}", **choices)


def _site(home: Path) -> Site:
    return Site(data_root=home, device="cpu", readers=0)


def _forget() -> None:
    """Drop what a new process would not know."""
    for kept in (found._dataset, found._path_stamp, code.code_hash, code.harness_hash):
        kept.cache_clear()


def count(home: Path, **choices: object) -> int:
    _forget()
    return len(finished(_requests(home, **choices), _site(home), Store(home / "run")))


def later(path: Path) -> None:
    """A change that the clock of the file system can see."""
    stamp = time.time_ns() + 10**9
    os.utime(path, ns=(stamp, stamp))


def test_everything_is_known_if_nothing_changed(done: Path) -> None:
    assert count(done) == 2
    assert count(done, seeds=(0, 1)) == 2


def test_settings_that_differ_are_not_known(done: Path) -> None:
    assert count(done, set={"eata": {"lr": 0.1}}) == 1
    assert count(done, batch_size=3) == 0


def test_an_image_that_was_overwritten_is_noticed(done: Path) -> None:
    image = next((done / "ImageNet-C" / "fog" / "5").rglob("*.JPEG"))
    image.write_bytes(image.read_bytes() + b" ")
    later(image)
    assert count(done) == 0


def test_an_added_or_removed_image_is_noticed(done: Path) -> None:
    folder = next((done / "ImageNet-C" / "fog" / "5").iterdir())
    (folder / "new.JPEG").write_bytes(b"")
    later(folder)
    assert count(done) == 0


def test_other_source_images_affect_only_methods_that_use_them(done: Path) -> None:
    folder = next((done / "ImageNet-val").iterdir())
    later(folder)
    assert count(done) == 1


def test_other_weights_are_noticed(done: Path) -> None:
    later(done / "vit.safetensors")
    assert count(done) == 0


def test_other_code_is_noticed(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "harness_hash", lambda: "other")
    assert count(done) == 0


def test_a_damaged_or_lost_file_of_keys_only_costs_time(done: Path) -> None:
    (notes,) = (done / "run" / "keys").glob("*.jsonl")
    notes.write_text(notes.read_text()[:-20])
    assert count(done) == 1
    notes.write_text('{"spec": 3}\n[]\nnonsense\n')
    assert count(done) == 0
    notes.unlink()
    assert count(done) == 0


def test_a_finished_run_of_digits_needs_neither_torch_nor_images(small_suite: Path) -> None:
    store = Store.create(small_suite.parent / "run", "small")
    asked = requests(small_suite, limit=32)
    run_left(asked, Binder(CPU), store, Watcher())
    words = ["run", "--suite", str(small_suite), "--limit", "32", "--device", "cpu", "--out", str(store.folder)]
    script = (
        "import sys\nfrom tta_bench.cli.main import main\n"
        f"status = main({words})\n"
        "print(status, [name for name in ('torch', 'timm', 'sklearn', 'pandas') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.strip().endswith("0 []"), shown
    assert "Reused 4 of 4 cells" in shown


def test_a_finished_run_with_a_model_of_the_hub_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process loads it from the cache by its name; later only files are looked at."""
    import timm

    trees.cifar_c(tmp_path)
    hubs.cache(tmp_path / "hub", monkeypatch)
    config = {**hubs.CONFIG, "num_classes": 10}
    folder = hubs.cached(tmp_path / "hub", timm.create_model("test_vit", num_classes=10), config=config)
    (tmp_path / "suite.yaml").write_text(
        "name: mine\nabout: a test\nmodel: hf_hub:lab/vit\nbatch_size: 8\ntasks: [fog]\n"
        "data: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}\nmethods: {source: {}}\n"
    )
    site, asked = Site(data_root=tmp_path, device="cpu"), requests(tmp_path / "suite.yaml")
    store = Store.create(tmp_path / "run", "mine")
    run_left(asked, Binder(site), store, Watcher())
    (record,) = store.records()
    assert (record.status, record.cell.spec.model, record.cell.found.mean) == (
        "done",
        "hf_hub:lab/vit",
        (0.4, 0.5, 0.6),
    )
    _forget()
    assert len(finished(asked, site, store)) == 1
    later(folder / "config.json")
    _forget()
    assert finished(asked, site, store) == {}


def test_corrected_labels_run_again(tmp_path: Path) -> None:
    home = trees.cifar_c(tmp_path)
    (tmp_path / "suite.yaml").write_text(
        "name: mine\nabout: a test\nmodel: digits-vit\nbatch_size: 8\ntasks: [fog]\n"
        "data: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}\nmethods: {source: {}}\n"
    )
    site, asked = Site(data_root=tmp_path, device="cpu"), requests(tmp_path / "suite.yaml")
    store = Store.create(tmp_path / "run", "mine")
    run_left(asked, Binder(site), store, Watcher())
    _forget()
    assert len(finished(asked, site, store)) == 1
    labels = np.load(home / "labels.npy")
    np.save(home / "labels.npy", labels[::-1])
    later(home / "labels.npy")
    _forget()
    assert finished(asked, site, store) == {}
    run_left(asked, Binder(site), store, Watcher())
    assert len(store.records()) == 2


def test_every_part_of_a_cell_s_identity_has_a_stamp() -> None:
    """A new field of `Found` needs a line in PARTS, which says how a change of it is noticed."""
    assert set(found.PARTS) == {field.name for field in fields(Found)}
    assert [name for name, part in found.PARTS.items() if not part.stamps] == []


def test_other_code_of_a_scenario_that_makes_images_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = requests(Path("digits-c-5"), methods=("source",), tasks=("contrast",), seeds=(0,), scenario="ccc")
    before = found.stamps(found.Request(spec, CPU, needs_source=False))
    hashed = found.code_hash
    monkeypatch.setattr(found, "code_hash", lambda module, *more: f"{hashed(module, *more)}!")
    after = found.stamps(found.Request(spec, CPU, needs_source=False))
    assert before is not None
    assert after is not None
    assert {name for name in before if before[name] != after[name]} == {"data_code", "scenario_code"}
