"""Streams with unknown classes, from a run to its tables: what is stored, shown and verified."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import tta_bench
from tests.support.cli import Cli
from tests.support.records import keep, make_record, mixed
from tests.support.works import run_folder, works
from tta_bench.errors import CellFailed
from tta_bench.isolation.host import run_cell
from tta_bench.isolation.logits import answer_of
from tta_bench.measure.open_set import auroc, fpr95, h_score, score
from tta_bench.records.predictions import Predictions
from tta_bench.records.store import Store
from tta_bench.report.columns import columns_at
from tta_bench.report.leaderboard import tidy_csv
from tta_bench.report.open_set import AUROC_CORRECT, FPR95_CORRECT
from tta_bench.report.rows import compare
from tta_bench.report.tables import accuracy_table, layout, open_table

SCENARIO = "continual+open:0.25"


@pytest.fixture
def folder(tmp_path: Path, small_suite: Path) -> Path:
    return run_folder(tmp_path / "run", small_suite, methods=("source", "tent-come"), scenario=SCENARIO, limit=64)


def test_tables_show_what_stored_predictions_give(folder: Path, cli: Cli) -> None:
    assert cli("report", folder, "--format", "csv,html,latex")[0] == 0
    rows = list(csv.DictReader((folder / "report" / "open.csv").read_text().splitlines()))
    store = Store.open(folder)
    for row, record in zip(rows, store.records(), strict=True):
        found = store.predictions(record)
        assert found.unknown is not None
        parts = [found.of_task(number) for number in range(2)]
        name = "entropy" if row["method"] == "source" else "own"
        own: list[Any] = [(score(p, name), score(cast(Predictions, p.unknown), name)) for p in parts]
        areas = [auroc(*both) for both in own]
        hs = [h_score(float(p.correct.mean()), area) for p, area in zip(parts, areas, strict=True)]
        expected = {
            "unknown %": np.mean([len(p.unknown) / 64 for p in parts if p.unknown]),
            "AUROC %": np.mean(areas),
            "FPR95 %": np.mean([fpr95(*both) for both in own]),
            "H %": np.mean(hs),
        }
        for name, value in expected.items():
            assert float(row[name]) == pytest.approx(100 * value, abs=0.051), name
        assert record.scores.samples == 128 == found.images
        assert record.scores.top1 == pytest.approx(found.correct.mean())
    lines = list(csv.DictReader((folder / "report" / "leaderboard.csv").read_text().splitlines()))
    assert float(lines[0]["auroc"]) == pytest.approx(
        store.records()[0].scores.open["contrast"]["entropy auroc"], abs=1e-3
    )
    assert {"auroc_softmax", "fpr95_energy", "h_score"} <= set(lines[0])
    assert "AUROC" in (folder / "report" / "report.html").read_text()
    frame = tta_bench.frame(folder)
    assert 0 < frame["auroc"].iloc[0] <= 100
    assert len(tta_bench.predictions(folder)) == sum(len(store.predictions(record)) for record in store.records())


def test_verify_computes_the_scores_again(folder: Path, cli: Cli) -> None:
    assert cli("report", folder)[0] == 0
    assert cli("verify", folder)[0] == 0
    changed = folder / "report" / "open.csv"
    lines = changed.read_text().splitlines()
    changed.write_text("\n".join([lines[0], lines[1].replace(lines[1].split(",")[2], "99.9"), *lines[2:]]) + "\n")
    assert cli("verify", folder)[0] != 0


def test_a_run_without_unknown_classes_has_none_of_the_columns(tmp_path: Path) -> None:
    plain = compare([make_record("source"), make_record("tent")])
    assert "auroc" not in tidy_csv(plain).splitlines()[0]
    assert "open" not in layout(plain)
    assert not [column for column in columns_at("page", plain) if column.only]
    store = Store.create(tmp_path / "run", "s")
    record = keep(store, make_record("source"), mixed([1, 0, 1, 1], unknown=[2, 3], confidence=[0.9] * 4 + [0.1] * 2))
    both = compare([record, make_record("tent")])
    assert "auroc" in tidy_csv(both).splitlines()[0]
    assert accuracy_table(both).rows[0][1][0].mean == pytest.approx(75)
    (source, other) = (
        dict(zip(open_table(both).columns, map(str, row), strict=True)) for _, row in open_table(both).rows
    )
    assert source["AUROC softmax %"] == "100.0"
    assert source["FPR95 softmax %"] == "0.0"
    assert other["AUROC %"] not in ("0.0", "100.0"), "a row without unknown images has no number"


def test_answers_of_known_classes_do_not_depend_on_whether_others_are_scored(small_suite: Path) -> None:
    work = works(small_suite, methods=("source",), scenario="open:0.2,data=digit-pairs-c-5", limit=40)[0]
    record, found = run_cell(work)
    plain, alone = run_cell(works(small_suite, methods=("source",), limit=40)[0])
    common = min(len(found), len(alone))
    assert (found.prediction[:common] == alone.prediction[:common]).all(), "the same images in the same order"
    assert "open" not in json.loads(plain.to_bytes())
    assert record.scores.open["contrast"]["unknown"] == pytest.approx(len(found.unknown or ()) / 40)


def test_a_method_brings_its_own_score() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    found = answer_of(logits, 2, 2, after=0, score=logits.softmax(1)[:, 0])
    assert found.own_score.tolist() == pytest.approx(logits.softmax(1)[:, 0].tolist())
    assert found.energy.tolist() == pytest.approx(logits.logsumexp(1).tolist())
    assert found.top[0].tolist() == [0, 1]
    assert np.isnan(answer_of(logits, 2, 2, after=0).own_score).all()
    for bad, message in ((torch.ones(3), "expected scores of shape"), (torch.tensor([1.0, torch.nan]), "NaN")):
        with pytest.raises(CellFailed, match=message):
            answer_of(logits, 2, 2, after=0, score=bad)
    with pytest.raises(CellFailed, match="known_scores returned list"):
        answer_of(logits, 2, 2, after=0, score=[1, 2])


def test_come_separates_right_answers_from_all_others() -> None:
    found = mixed([1, 0, 1, 1], unknown=[2, 3], confidence=[0.9, 0.3, 0.8, 0.2, 0.1, 0.85])
    record = make_record("source")
    pairs = [(k > u) + (k == u) / 2 for k in (0.9, 0.8, 0.2) for u in (0.3, 0.1, 0.85)]
    assert AUROC_CORRECT.compute(found, record) == pytest.approx(100 * sum(pairs) / 9)
    assert FPR95_CORRECT.compute(found, record) == pytest.approx(100 * 2 / 3)


@pytest.mark.slow
def test_a_run_in_worker_processes_is_reported_and_verified(tmp_path: Path, small_suite: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    words = ("--suite", small_suite, "--scenario", "open:0.2,data=digit-pairs-c-5", "--limit", 48, "--out", out)
    status, text, _ = cli("run", *words)
    assert status == 0
    assert "unknown classes" in text
    status, text, _ = cli("verify", out, "--rerun", 1)
    assert status == 0, text
    assert "holds       apart" in text
    assert "same predictions, bit for bit" in text or "rerun" in text
