"""A method learns from source images once per method, settings, weights and source images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.works import CPU, requests
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.runs.bind import Binder
from tta_bench.runs.execute import run_left
from tta_bench.runs.listing import Watcher

METHODS = ("eata", "cfa", "foa-shift")


def run(suite: Path, folder: Path, **choices: object) -> dict[tuple[str, str, int], Record]:
    """A run that shares no memory with earlier ones, as in a new process."""
    store = Store.create(folder, "small")
    asked = requests(suite, limit=32, **choices)
    records = run_left(asked, Binder(CPU), store, Watcher())
    return {(spec.method, spec.name, spec.seed): records[spec.digest] for spec in asked}


@pytest.mark.parametrize("method", METHODS)
def test_it_is_learned_once_and_read_back_exactly(small_suite: Path, tmp_path: Path, method: str) -> None:
    found = run(small_suite, tmp_path / "run", methods=(method,), seeds=(0, 1))
    assert [record.status for record in found.values()] == ["done"] * 4, [r.reason for r in found.values()]
    assert [record.prepared for record in found.values()] == ["learned", "read", "read", "read"]
    assert len(list((tmp_path / "run" / "prepared").glob("*.safetensors"))) == 1
    first, *others = found.values()
    assert first.prepare_forwards > 0
    for record in others:  # they hold the cost where it was learned
        assert record.prepare_forwards == first.prepare_forwards
        assert record.seconds["prepare"] == first.seconds["prepare"] > 0
    alone = run(small_suite, tmp_path / "alone", methods=(method,), seeds=(1,), tasks=("brightness",))
    (own,) = alone.values()
    assert own.prepared == "learned"
    stores = [Store.open(tmp_path / name) for name in ("run", "alone")]
    predictions = [store.predictions(own) for store in stores]
    for name in ("prediction", "confidence", "entropy"):
        assert np.array_equal(*(getattr(found, name) for found in predictions)), name


def test_another_process_reads_it(small_suite: Path, tmp_path: Path) -> None:
    run(small_suite, tmp_path / "run", methods=("eata",), tasks=("brightness",))
    (record,) = run(small_suite, tmp_path / "run", methods=("eata",), tasks=("contrast",)).values()
    assert record.prepared == "read"


@pytest.mark.parametrize("change", [{"overrides": {"eata": {"fisher_weight": 1.0}}}, {"batch_size": 16}])
def test_other_settings_learn_for_themselves(small_suite: Path, tmp_path: Path, change: dict[str, object]) -> None:
    run(small_suite, tmp_path / "run", methods=("eata",), tasks=("brightness",))
    (record,) = run(small_suite, tmp_path / "run", methods=("eata",), tasks=("contrast",), **change).values()
    assert record.prepared == "learned"


def test_a_damaged_file_is_learned_again(small_suite: Path, tmp_path: Path) -> None:
    run(small_suite, tmp_path / "run", methods=("eata",), tasks=("brightness",))
    (kept,) = (tmp_path / "run" / "prepared").glob("*.safetensors")
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    (record,) = run(small_suite, tmp_path / "run", methods=("eata",), tasks=("contrast",)).values()
    assert record.prepared == "learned"
    assert kept.read_bytes()[100:] == whole[100:] or len(kept.read_bytes()) > len(whole) // 2


def test_methods_that_need_nothing_learn_nothing(small_suite: Path, tmp_path: Path) -> None:
    found = run(small_suite, tmp_path / "run", methods=("tent",))
    assert {record.prepared for record in found.values()} == {""}
    assert not (tmp_path / "run" / "prepared").exists()
