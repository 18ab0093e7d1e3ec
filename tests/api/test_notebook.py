"""Runs as pandas frames: one row per cell and task, with the labels and numbers of the tables, without torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tta_bench
from tests.support.cli import Cli
from tests.support.folders import ORDER, make_sweep, save
from tests.support.records import changed, keep, make_failure, make_record
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.store import Store


def filled(folder: Path, records: Sequence[Record]) -> Path:
    store = Store.create(folder, "s")
    for record in records:
        keep(store, record)
    return folder


def test_one_row_per_cell(run: Path) -> None:
    found = tta_bench.frame(run)
    assert list(found["method"]) == ["source", "source", "better", "better"]
    assert list(found["task"]) == ["fog", "snow"] * 2
    fog = found[(found["method"] == "better") & (found["task"] == "fog")].iloc[0]
    expected = {
        "suite": "s", "scenario": "normal", "seed": 0, "plugin": "better", "status": "done",
        "accuracy": 75.0, "top5": 75.0, "ece": 0.75, "images": 100, "ms_per_image": 3.0, "forwards_per_image": 2.0,
        "backwards_per_image": 0.5, "resets": 1, "peak_mib": 1024.0, "scored": "pre-update", "model": "m",
        "weights": "w", "batch_size": 10, "device": "cpu", "device_name": "chip", "threads": 2,
    }  # fmt: skip
    assert {key: fog[key] for key in expected} == pytest.approx(expected)
    assert fog["settings"] == {}
    assert fog["seconds"] == pytest.approx(0.03 * 19)
    assert fog["finished_at"] == pd.Timestamp("2026-01-01", tz="UTC")
    assert (run / "cells" / f"{fog['cell']}.json").is_file()
    assert found[["severity", "limit"]].isna().all(axis=None)


def test_a_failed_cell_has_its_reason_and_no_numbers(tmp_path: Path) -> None:
    there = filled(tmp_path / "run", [make_record("a"), make_failure("b", "NaN logits")])
    found = tta_bench.frame(there).set_index("method")
    assert found.loc["b", ["status", "reason"]].tolist() == ["failed", "NaN logits"]
    numbers = ["accuracy", "top5", "ece", "seconds", "ms_per_image", "forwards_per_image", "resets", "peak_mib"]
    assert found.loc["b", numbers].isna().all()
    assert found["accuracy"].mean() == 50.0  # of the other alone
    alone = tta_bench.frame(filled(tmp_path / "failed", [make_failure("b", "NaN logits")]))
    assert (len(alone), alone["accuracy"].dtype) == (1, np.float64)


def test_a_stream_over_several_tasks_has_a_row_for_each(tmp_path: Path) -> None:
    record = make_record("m", tasks=("fog", "snow"), scenario="continual", data={"kind": "k", "severity": 3})
    found = tta_bench.frame(filled(tmp_path / "run", [changed(record, task_top1={"fog": 0.2, "snow": 0.8})]))
    assert dict(zip(found["task"], found["accuracy"], strict=True)) == {"fog": 20.0, "snow": 80.0}
    assert found[["top5", "ece"]].isna().all(axis=None), "these are known for the whole stream only"
    assert list(found["severity"]) == [3, 3]
    assert found["cell"].nunique() == 1


def test_a_gradual_stream_has_no_one_severity(tmp_path: Path) -> None:
    record = make_record("m", scenario="gradual", data={"kind": "k", "severity": 5})
    assert tta_bench.frame(filled(tmp_path / "run", [record]))["severity"].isna().all()


def test_rows_have_the_same_labels_as_in_tables(tmp_path: Path) -> None:
    settings = [make_record("tent", top1, settings={"lr": lr}) for lr, top1 in ((0.1, 0.5), (0.2, 0.6))]
    found = tta_bench.frame(filled(tmp_path / "run", settings))
    assert dict(zip(found["method"], found["accuracy"], strict=True)) == {"tent (lr=0.1)": 50.0, "tent (lr=0.2)": 60.0}
    assert sorted(found["settings"].str["lr"]) == [0.1, 0.2]
    assert set(tta_bench.frame(make_sweep(tmp_path / "sweep"))["plugin"]) == {"source", "m"}


def test_results_of_changed_code_are_left_out_and_reported(tmp_path: Path) -> None:
    old = make_record("mine", 0.1, method_code="old")
    new = replace(make_record("mine", 0.9, method_code="new"), finished_at="2026-01-02T00:00:00+00:00")
    found = tta_bench.frame(filled(tmp_path / "run", [old, new]))
    assert list(found["accuracy"]) == [90.0]
    assert found.attrs["notes"] == ["Skipped 1 record: code or data changed since they were made."]


def test_a_frame_holds_what_tables_show_separately(tmp_path: Path) -> None:
    records = [make_record("m", batch_size=10), make_record("m", batch_size=20), make_record("m", limit=7)]
    records += [make_record("m", model="other", weights="v"), make_record("m", scenario="mixed")]
    found = tta_bench.frame(filled(tmp_path / "run", records))
    assert len(found) == 5
    assert found["limit"].dropna().tolist() == [7]
    assert any("NOT REPORTABLE" in note for note in found.attrs["notes"])


def test_old_trials_that_fit_no_table_do_no_harm(tmp_path: Path) -> None:
    trials = [make_record("a", limit=64), make_record("b", limit=64, data_code="changed since")]
    there = filled(tmp_path / "run", [make_record("a"), make_record("b"), *trials])
    with pytest.raises(UserError, match="different images or image code"):
        tta_bench.frame(there)
    assert list(tta_bench.frame(there, limit=None)["method"]) == ["a", "b"]
    assert list(tta_bench.frame(there, limit=None, method="b")["method"]) == ["b"]


def test_several_folders_count_a_cell_once(run: Path, tmp_path: Path) -> None:
    other = filled(tmp_path / "other", [make_record("source", seed=1)])
    save(Store.open(other), make_record("source", 0.5, task="snow", ms=1.0))
    found = tta_bench.frame(run, str(other))
    assert len(found) == 5
    assert set(found["seed"]) == {0, 1}


def test_predictions_are_one_row_per_image(run: Path) -> None:
    found = tta_bench.predictions(run)
    assert list(found.columns) == [
        "suite", "scenario", "task", "seed", "method", "cell",
        "batch", "image", "label", "prediction", "correct", "in_top5", "confidence", "entropy", "brier",
    ]  # fmt: skip
    assert len(found) == 400
    share = found.groupby(["method", "task"], observed=True)["correct"].mean()
    assert share.loc["better", "fog"] == 0.75
    assert share.loc["source", "snow"] == 0.5
    first = found[found["cell"] == found["cell"].iloc[0]]
    assert first["image"].tolist() == ORDER.tolist()
    assert first["batch"].tolist() == (ORDER // 10).tolist()
    assert found.merge(tta_bench.frame(run)[["cell", "model"]], on="cell")["model"].eq("m").all()


def test_predictions_of_some_cells(run: Path) -> None:
    found = tta_bench.predictions(run, task="fog", method=["source", "better"], limit=None, seed=0)
    assert set(found["task"]) == {"fog"}
    assert set(found["method"]) == {"source", "better"}
    only = tta_bench.predictions(run, task="fog", method="better")
    assert (len(only), set(only["method"])) == (100, {"better"})


def test_each_image_of_a_stream_over_several_tasks_has_its_task(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    keep(store, make_record("m", tasks=("fog", "snow"), scenario="mixed"))
    found = tta_bench.predictions(store.folder)
    assert list(found["task"]) == ["fog"] * 50 + ["snow"] * 50
    assert (found["scenario"] == "mixed").all()


def test_mistakes_say_what_to_do(run: Path, tmp_path: Path) -> None:
    for read in (tta_bench.frame, tta_bench.predictions):
        with pytest.raises(UserError, match="is not a run folder"):
            read(tmp_path / "nowhere")
        with pytest.raises(UserError, match="empty: no records: run `tta-bench run` first"):
            read(filled(tmp_path / "empty", []))
    with pytest.raises(UserError, match=r"no such record \(known: task=fog, task=snow\)"):
        tta_bench.predictions(run, task="fgo")
    with pytest.raises(UserError, match="unknown key 'tsk'; did you mean 'task'"):
        tta_bench.predictions(run, tsk="fog")
    with pytest.raises(UserError, match="none of these cells is done"):
        tta_bench.predictions(filled(tmp_path / "failed", [make_failure("b", "NaN logits")]))
    lost = filled(tmp_path / "lost", [make_record("a")])
    next(lost.glob("cells/*.npy")).unlink()
    with pytest.raises(UserError, match="predictions cannot be read"):
        tta_bench.predictions(lost)


def test_a_real_run_gives_the_numbers_of_its_table(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    cli("run", "--suite", small_suite, "--limit", 64, "--out", out)
    found = tta_bench.frame(out)
    top1 = pd.read_csv(out / "report" / "leaderboard.csv").set_index(["label", "task"])["top1"]
    own = found.set_index(["method", "task"])["accuracy"]
    assert (100 * top1).to_dict() == pytest.approx(own.to_dict(), abs=0.005)
    assert list(found["severity"]) == [5] * 4
    share = tta_bench.predictions(out).groupby("cell", observed=True)["correct"].mean()
    assert (100 * share).to_dict() == pytest.approx(found.set_index("cell")["accuracy"].to_dict())


def test_pandas_is_imported_late_and_torch_never() -> None:
    code = (
        "import sys, tta_bench, tta_bench.cli.main, tta_bench.report.write, tta_bench.report.frames\n"
        "tta_bench.cli.main.parser(); tta_bench.frame; tta_bench.predictions\n"
        "assert {'frame', 'predictions'} <= set(dir(tta_bench))\n"
        "print('pandas' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_frame_imports_no_torch(run: Path) -> None:
    code = f"import sys, tta_bench; tta_bench.frame({str(run)!r}); tta_bench.predictions({str(run)!r}); "
    code += "print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
