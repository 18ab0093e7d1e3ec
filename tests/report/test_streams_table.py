"""The table of composed streams: forgetting, the worst task and group, labels in a row, and visits."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.support.cli import Cli
from tests.support.works import run_folder
from tta_bench.figures import kinds
from tta_bench.measure.correlation import correlation
from tta_bench.records.store import Store
from tta_bench.report import visits
from tta_bench.report.metrics import WORST_GROUP
from tta_bench.report.runs import Runs


def table(folder: Path, cli: Cli) -> list[dict[str, str]]:
    assert cli("report", str(folder))[0] == 0
    return list(csv.DictReader((folder / "report" / "streams.csv").read_text().splitlines()))


def test_a_probe_is_scored_at_its_start_at_its_end_and_where_it_is_worst(
    tmp_path: Path, small_suite: Path, cli: Cli
) -> None:
    scenario = "continual+remember:20"
    folder = run_folder(tmp_path / "run", small_suite, methods=("source", "tent"), scenario=scenario, limit=24)
    rows = table(folder, cli)
    store = Store.open(folder)
    costs = list(csv.DictReader((folder / "report" / "time.csv").read_text().splitlines()))
    assert [float(row["forwards/image"]) for row in costs] == [1, 1], "images of the probe are not adapted to"
    for row, record in zip(rows, store.records(), strict=True):
        found = store.predictions(record)
        probe = found.correct[found.task == 2].reshape(3, 20).mean(1)
        assert float(row["clean first %"]) == pytest.approx(100 * probe[0], abs=0.051)
        assert float(row["clean last %"]) == pytest.approx(100 * probe[-1], abs=0.051)
        assert float(row["clean worst %"]) == pytest.approx(100 * probe.min(), abs=0.051)
        tasks = [found.correct[found.task == i].mean() for i in range(2)]
        assert float(row["worst task %"]) == pytest.approx(100 * min(tasks), abs=0.051), "clean images are no task"
        assert float(row["run length"]) == pytest.approx(correlation(found.label).run, abs=0.01)
        assert "error/visit" not in row
    text = (folder / "report" / "report.md").read_text()
    assert "predicted without adapting; first: before all tasks" in text
    assert cli("verify", str(folder))[0] == 0
    changed = folder / "report" / "streams.csv"
    changed.write_text(changed.read_text().replace(rows[0]["clean first %"], "99.9"))
    assert cli("verify", str(folder))[0] != 0
    pytest.importorskip("matplotlib")
    found, _ = kinds.make("forgetting", folder, {})
    assert "probed clean images" in found.y
    assert [len(line.mean) for line in found.lines] == [3, 3]


def test_averages_leave_out_clean_images_in_every_table(tmp_path: Path, small_suite: Path, cli: Cli) -> None:
    folder = run_folder(tmp_path / "run", small_suite, methods=("source", "tent"), scenario="forgetting", limit=40)
    code, shown, err = cli("report", folder, "--format", "md,csv,latex,html,terminal", "--metric", "worst-task")
    assert code == 0, err
    assert "clean images beside the tasks, which are not in Avg." in " ".join(shown.split())
    runs, report = Runs([folder]), folder / "report"
    first = next(record for record in runs.records if record.label == "source")
    found = runs.predictions(first.cell)
    tasks = [100 * found.correct[found.task == i].mean() for i in range(2)]
    clean, average = 100 * found.correct[found.task == 2].mean(), float(np.mean(tasks))
    assert 100 * first.accuracy == pytest.approx(average)
    assert abs(average - 100 * first.scores.top1) > 1, "an average over all images would differ"
    (row, _) = csv.DictReader((report / "accuracy.csv").read_text().splitlines())
    assert list(row)[:5] == ["method", "cnt", "brt", "Avg.", "clean"]
    assert (float(row["Avg."]), float(row["clean"])) == pytest.approx((average, clean), abs=0.051)
    assert f"| {average:.1f}" in (report / "leaderboard.md").read_text().replace("**", "")
    for file in ("report.md", "accuracy.tex", "report.html"):
        assert f"{average:.1f}" in (report / file).read_text(), file
    assert cli("compare", folder, "--a", "source", "--b", "tent", "--out", tmp_path / "against")[0] == 0
    assert f",{average:.2f}," in (tmp_path / "against" / "compare.csv").read_text()
    assert len(runs.correct(first.cell)) == len(runs.index(first.cell)) == len(runs.outline(first.cell).label) == 80
    lines = list(csv.DictReader((report / "leaderboard.csv").read_text().splitlines()))
    assert [line["task"] for line in lines if line["label"] == "source"] == ["contrast", "brightness", "clean"]


def test_visits_have_a_slope_and_an_alarm(tmp_path: Path, small_suite: Path, cli: Cli) -> None:
    folder = run_folder(tmp_path / "run", small_suite, methods=("source",), scenario="continual+recurring:3")
    (row,) = table(folder, cli)
    store = Store.open(folder)
    (record,) = store.records()
    change = visits.slope([list(100 - visits.accuracies(store.predictions(record)))])
    assert change is not None
    shown = [float(row[name]) for name in ("error/visit", "95 % low", "high")]
    assert shown == pytest.approx(list(change), abs=0.006)
    assert "clean first %" not in row


def test_plain_streams_have_no_such_table(tmp_path: Path, small_suite: Path, cli: Cli) -> None:
    folder = run_folder(tmp_path / "run", small_suite, methods=("source",), scenario="continual", limit=8)
    assert cli("report", str(folder))[0] == 0
    assert not (folder / "report" / "streams.csv").exists()
    code, out, _ = cli("report", str(folder), "--metric", "clean-last")
    assert code == 0
    assert "metric 'clean-last' of tta-bench gave no number" in " ".join(out.split())


def test_groups_are_classes_of_tasks(tmp_path: Path, small_suite: Path) -> None:
    folder = run_folder(tmp_path / "run", small_suite, methods=("source",), scenario="continual+border", limit=200)
    store = Store.open(folder)
    (record,) = store.records()
    found = store.predictions(record)
    groups = [found.correct[(found.task == t) & (found.label == c)] for t in range(2) for c in range(10)]
    expected = min(100 * np.mean(group) for group in groups if len(group) >= 10)
    assert WORST_GROUP.compute(found, record) == pytest.approx(expected)
