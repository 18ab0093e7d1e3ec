"""A method learns from source images once per method, settings, weights and source images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.records import make_cell
from tests.support.works import CPU, requests
from tta_bench.isolation.prepared import Cost, Prepared, digest
from tta_bench.measure import environment
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.runs.bind import Binder
from tta_bench.runs.execute import run_left
from tta_bench.runs.watcher import Watcher

METHODS = ("eata", "cfa", "foa-shift", "foa", "rmt")
QUICK: dict[str, dict[str, object]] = {"foa": {"population_size": 4}, "rmt": {"warmup_steps": 3, "optimizer": "adam"}}


def run(
    suite: Path, folder: Path, *, cache: Path | None = None, **choices: object
) -> dict[tuple[str, str, int], Record]:
    """A run that shares no memory with earlier ones, as in a new process."""
    store = Store.create(folder, "small")
    asked = requests(suite, limit=32, **choices)
    records = run_left(asked, Binder(replace(CPU, cache=cache)), store, Watcher())
    return {(spec.method, spec.name, spec.seed): records[spec.digest] for spec in asked}


@pytest.mark.parametrize("method", METHODS)
def test_it_is_learned_once_and_read_back_exactly(small_suite: Path, tmp_path: Path, method: str) -> None:
    quick = {"set": {method: QUICK.get(method, {})}}
    found = run(small_suite, tmp_path / "run", methods=(method,), seeds=(0, 1), **quick)
    assert [record.status for record in found.values()] == ["done"] * 4, [r.reason for r in found.values()]
    assert [record.measured.prepared for record in found.values()] == ["learned", "read", "read", "read"]
    assert len(list((tmp_path / "run" / "prepared").glob("*.safetensors"))) == 1
    first, *others = found.values()
    assert first.measured.prepare_forwards > 0
    for record in others:  # they hold the cost where it was learned
        assert record.measured.prepare_forwards == first.measured.prepare_forwards
        assert record.measured.seconds["prepare"] == first.measured.seconds["prepare"] > 0
    alone = run(small_suite, tmp_path / "alone", methods=(method,), seeds=(1,), tasks=("brightness",), **quick)
    (own,) = alone.values()
    assert own.measured.prepared == "learned"
    stores = [Store.open(tmp_path / name) for name in ("run", "alone")]
    predictions = [store.predictions(own) for store in stores]
    for name in ("prediction", "confidence", "entropy"):
        assert np.array_equal(*(getattr(found, name) for found in predictions)), name


def test_another_process_reads_it(small_suite: Path, tmp_path: Path) -> None:
    run(small_suite, tmp_path / "run", methods=("eata",), tasks=("brightness",))
    (record,) = run(small_suite, tmp_path / "run", methods=("eata",), tasks=("contrast",)).values()
    assert record.measured.prepared == "read"


def test_a_cache_shares_it_between_folders(small_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def learned(folder: str) -> str:
        one = {"methods": ("eata",), "tasks": ("brightness",)}
        (record,) = run(small_suite, tmp_path / folder, cache=tmp_path / "cache", **one).values()
        assert record.status == "done"
        return record.measured.prepared

    assert [learned("first"), learned("second")] == ["learned", "read"]
    assert not (tmp_path / "first" / "prepared").exists()
    (kept,) = (tmp_path / "cache").rglob("*.safetensors")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert [learned("third"), learned("fourth")] == ["learned", "read"]
    monkeypatch.setattr(environment, "versions", lambda: {"torch": "another"})
    assert learned("fifth") == "learned"


@pytest.mark.parametrize("change", [{"set": {"eata": {"fisher_weight": 1.0}}}, {"batch_size": 16}])
def test_other_settings_learn_for_themselves(small_suite: Path, tmp_path: Path, change: dict[str, object]) -> None:
    run(small_suite, tmp_path / "run", methods=("eata",), tasks=("brightness",))
    (record,) = run(small_suite, tmp_path / "run", methods=("eata",), tasks=("contrast",), **change).values()
    assert record.measured.prepared == "learned"


def test_a_damaged_file_is_learned_again(small_suite: Path, tmp_path: Path) -> None:
    run(small_suite, tmp_path / "run", methods=("eata",), tasks=("brightness",))
    (kept,) = (tmp_path / "run" / "prepared").glob("*.safetensors")
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    (record,) = run(small_suite, tmp_path / "run", methods=("eata",), tasks=("contrast",)).values()
    assert record.measured.prepared == "learned"
    assert kept.read_bytes()[100:] == whole[100:] or len(kept.read_bytes()) > len(whole) // 2


def test_a_flipped_bit_is_learned_again(small_suite: Path, tmp_path: Path) -> None:
    run(small_suite, tmp_path / "run", methods=("eata",), tasks=("brightness",))
    (kept,) = (tmp_path / "run" / "prepared").glob("*.safetensors")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    (record,) = run(small_suite, tmp_path / "run", methods=("eata",), tasks=("contrast",)).values()
    assert record.measured.prepared == "learned"


def test_a_folder_that_cannot_be_written_costs_time_only(small_suite: Path, tmp_path: Path) -> None:
    Store.create(tmp_path / "run", "small")
    (tmp_path / "run" / "prepared").write_text("a file where the folder would be")
    found = run(small_suite, tmp_path / "run", methods=("eata",))
    assert [record.status for record in found.values()] == ["done"] * 2
    assert [record.measured.prepared for record in found.values()] == ["learned", "read"]  # this process remembers it


@pytest.mark.parametrize(
    "change", [{"weights": "other"}, {"source": "other"}, {"method_code": "other"}, {"settings": {"lr": 0.5}}]
)
def test_other_weights_or_images_have_another_digest(change: dict[str, Any]) -> None:
    assert digest(make_cell("eata", **change)) != digest(make_cell("eata"))


def test_the_order_of_the_stream_has_the_same_digest() -> None:
    assert digest(make_cell("eata", stream="other", seed=3)) == digest(make_cell("eata"))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.bool, torch.int64])
def test_a_state_may_have_any_type(tmp_path: Path, kind: torch.dtype) -> None:
    state = {"matrix": torch.ones(2, 3).to(kind), "number": torch.tensor(1).to(kind), "empty": torch.ones(0).to(kind)}
    Prepared(tmp_path).keep(make_cell("eata"), state, Cost(1.0, 2, 3, 4))
    found = Prepared(tmp_path).find(make_cell("eata"))
    assert found is not None
    assert all(torch.equal(found[0][name], tensor) for name, tensor in state.items())


def test_methods_that_need_nothing_learn_nothing(small_suite: Path, tmp_path: Path) -> None:
    found = run(small_suite, tmp_path / "run", methods=("tent",))
    assert {record.measured.prepared for record in found.values()} == {""}
    assert not (tmp_path / "run" / "prepared").exists()
