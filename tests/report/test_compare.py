"""`compare` and the leaderboard: from stored predictions to differences that can be trusted."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cli import Cli
from tests.support.records import changed, keep, make_failure, make_record, predict
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report import differences, leaderboard, render
from tta_bench.report.rows import compare
from tta_bench.report.runs import Runs

IMAGES = 600
SKILL = {"source": 0.60, "sar": 0.70, "twin": 0.70}


def fill(folder: Path, skill: dict[str, float] | None = None, **changes: Any) -> Store:
    """A run of three methods on two tasks with two seeds; a method's luck with an image is its own."""
    store = Store.create(folder, "s")
    for task in ("fog", "snow"):
        for seed in (0, 1):
            rng = np.random.default_rng([seed, len(task)])
            order = rng.permutation(IMAGES)
            for i, (method, chance) in enumerate((skill or SKILL).items()):
                luck = np.random.default_rng([i % 2, seed]).random(IMAGES)
                right = (luck < chance)[order]
                save(store, make_record(method, task=task, seed=seed, **changes), order, right)
    return store


def save(store: Store, record: Record, order: np.ndarray, right: np.ndarray) -> None:
    keep(store, record, predict(right, index=order, label=order % 10))


def test_a_better_method_is_found_and_named_in_words(tmp_path: Path) -> None:
    fill(tmp_path)
    runs = Runs([tmp_path])
    found = differences.difference(compare(runs.records), "source", "sar", runs)
    assert found.overall.low > 0
    assert 0.05 < found.overall.difference < 0.15
    assert [task.verdict for task in found.tasks] == ["better", "better"]
    said = differences.sentence(found)
    assert said.startswith("sar is ")
    assert "points more accurate than source on average over 2 tasks (95 % interval +" in said
    assert said.endswith("it is better on 2, worse on 0, no clear difference on 0.")


def test_the_other_way_round_is_the_mirror(tmp_path: Path) -> None:
    fill(tmp_path)
    runs = Runs([tmp_path])
    there = differences.difference(compare(runs.records), "source", "sar", runs)
    back = differences.difference(compare(runs.records), "sar", "source", runs)
    assert back.overall.difference == pytest.approx(-there.overall.difference)
    assert back.overall.p == pytest.approx(there.overall.p)
    assert [task.verdict for task in back.tasks] == ["worse", "worse"]
    assert "less accurate" in differences.sentence(back)


def test_equal_methods_are_even(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 0.6, "b": 0.6})
    runs = Runs([tmp_path])
    found = differences.difference(compare(runs.records), "a", "b", runs)
    assert differences.sentence(found).startswith("No clear difference between b and a on average over 2 tasks")


def test_the_difference_is_that_of_the_accuracies(tmp_path: Path) -> None:
    fill(tmp_path)
    runs = Runs([tmp_path])
    found = differences.difference(compare(runs.records), "source", "sar", runs)
    for task in found.tasks:
        assert task.estimate.difference == pytest.approx(task.b - task.a)
        assert task.estimate.low < task.estimate.difference < task.estimate.high


def test_cells_that_failed_or_have_no_partner_are_reported(tmp_path: Path) -> None:
    store = fill(tmp_path)
    store.save(make_failure("source", "it broke", task="frost"), None)
    order = np.arange(IMAGES)
    save(store, make_record("sar", task="frost"), order, order % 2 == 0)
    runs = Runs([tmp_path])
    found = differences.difference(compare(runs.records), "source", "sar", runs)
    assert [task.task for task in found.tasks] == ["fog", "snow"]
    assert "WARNING left out of source: 1 failed cells, 0 that the other row lacks." in map(str, found.notes)
    assert "WARNING left out of sar: 0 failed cells, 1 that the other row lacks." in map(str, found.notes)


def test_different_score_points_are_reported(tmp_path: Path) -> None:
    store = fill(tmp_path, {"source": 0.6})
    rng = np.random.default_rng(0)
    for task in ("fog", "snow"):
        order = np.random.default_rng([0, len(task)]).permutation(IMAGES)
        save(store, changed(make_record("dpal", task=task), score_point="perturbed"), order, rng.random(IMAGES) < 0.6)
    runs = Runs([tmp_path])
    found = differences.difference(compare(runs.records), "source", "dpal", runs)
    assert "WARNING scored at different points: source pre-update, dpal perturbed." in map(str, found.notes)


def test_a_row_is_found_without_its_settings_if_it_is_the_only_one() -> None:
    rows = [changed(make_record("tent"), label="tent (lr=0.1)"), make_record("source")]
    found = compare(rows)
    assert differences.find_row(found, "tent").label == differences.find_row(found, "tent (lr=0.1)").label
    twin = make_record("sar")
    assert differences.find_row(found, "sou").label == "source"
    both = compare([*rows, changed(twin, label="tent (lr=0.2)")])
    with pytest.raises(
        UserError, match=r"'tent' may be any of 2 rows of s: name one of 'tent \(lr=0.1\)', 'tent \(lr=0.2"
    ):
        differences.find_row(both, "tent")
    exact = compare([*rows, changed(twin, label="tent")])
    assert differences.find_row(exact, "tent").label == "tent"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--a", "sarr", "--b", "source"], "no row 'sarr' in s; did you mean 'sar'?"),
        (["--a", "sar", "--b", "sar"], "--a and --b are both 'sar'"),
        (["--a", "sar", "--b", "lonely"], "have no samples in common"),
        (["--a", "sar"], "required: --b"),
    ],
)
def test_mistakes_are_one_line(cli: Cli, tmp_path: Path, words: list[str], said: str) -> None:
    store = fill(tmp_path / "run")
    save(store, make_record("lonely", task="frost"), np.arange(10), np.ones(10, bool))
    status, shown, err = cli("compare", tmp_path / "run", *words)
    assert (status, shown, err.count("\n")) == (2, "", 1)
    assert said in err


def test_damaged_predictions_are_one_line(cli: Cli, tmp_path: Path) -> None:
    store = fill(tmp_path)
    for path in store.cells.glob("sar--*.npy"):
        path.write_bytes(path.read_bytes()[:100])
    status, _, err = cli("compare", tmp_path, "--a", "source", "--b", "sar")
    assert (status, err.count("\n")) == (2, 1)
    assert "damaged, its digest differs from the one in its record" in err


def test_compare_shows_and_writes(cli: Cli, tmp_path: Path) -> None:
    fill(tmp_path / "run")
    status, shown, _ = cli("compare", tmp_path / "run", "--a", "source", "--b", "sar", "--out", tmp_path / "out")
    assert status == 0
    assert "sar is " in shown
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"compare.md", "compare.csv", "compare.tex"}
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "compare.csv").read_text())))
    assert [row["task"] for row in rows] == ["fg", "snw", "Avg."]
    again = cli("compare", tmp_path / "run", "--a", "source", "--b", "sar")[1]
    assert shown.startswith(again), "the same input gives the same numbers"


def test_two_folders_are_read_as_one(tmp_path: Path) -> None:
    fill(tmp_path / "one", {"source": 0.6})
    fill(tmp_path / "two", {"source": 0.6, "sar": 0.7})
    runs = Runs([tmp_path / "one", tmp_path / "two"])
    assert len(runs.records) == 8, "what lies in both counts once"
    assert differences.difference(compare(runs.records), "source", "sar", runs).overall.low > 0


def test_the_leaderboard_marks_rows_that_may_equal_the_best(tmp_path: Path) -> None:
    fill(tmp_path, {"best": 0.70, "source": 0.60, "near": 0.70})
    runs = Runs([tmp_path])
    rows = compare(runs.records)
    table = leaderboard.ranking(rows, leaderboard.close_to_best(rows, runs))
    ranks = {label: str(values[0]) for label, values in table.rows}
    assert ranks == {"best": "1", "near": "1≈", "source": "3"}


def test_rows_without_a_stream_in_common_with_the_best_are_named(tmp_path: Path) -> None:
    store = fill(tmp_path, {"best": 0.70, "source": 0.60})
    order = np.arange(IMAGES)
    save(store, make_record("other", task="fog", seed=5), order, order % 2 == 0)
    save(store, make_record("other", task="snow", seed=5), order, order % 2 == 0)
    runs = Runs([tmp_path])
    close = leaderboard.close_to_best(compare(runs.records), runs)
    assert "Not compared with the best, which has other streams: other." in map(str, close.notes)


def test_without_predictions_no_table_is_made(tmp_path: Path) -> None:
    store = fill(tmp_path)
    next(store.cells.glob("sar--*.npy")).unlink()
    with pytest.raises(UserError, match="predictions cannot be read"):
        Runs([tmp_path])


def test_the_leaderboard_ranks_what_has_no_average_last(tmp_path: Path) -> None:
    records = [make_record("sar"), make_record("sar", task="snow"), make_record("a", 0.9)]
    table = leaderboard.ranking(compare(records))
    assert [(label, str(values[0])) for label, values in table.rows] == [("sar", "1"), ("a", "–")]


def test_tidy_rows_are_sorted_and_complete() -> None:
    records = [
        make_record("tent", 0.5, task="snow", seed=1, settings={"lr": 0.1, "seed": 1}),
        make_record("tent", 0.25, task="snow", seed=0, settings={"lr": 0.1, "seed": 0}),
        make_record("sar", task="snow"),
        make_failure("sar", "why, oh\nwhy", task="fog"),
    ]
    rows = list(csv.DictReader(io.StringIO(leaderboard.tidy_csv(compare(records)))))
    assert [(row["label"], row["task"], row["seed"]) for row in rows] == [
        ("sar", "snow", "0"),
        ("sar", "fog", "0"),
        ("tent", "snow", "0"),
        ("tent", "snow", "1"),
    ]
    assert rows[2]["top1"] == "0.2500"
    assert json.loads(rows[2]["settings"]) == {"lr": 0.1}
    assert (rows[1]["status"], rows[1]["reason"], rows[1]["top1"]) == ("failed", "why, oh why", "")


def test_the_leaderboard_does_not_depend_on_the_order_of_records() -> None:
    records = [make_record(method, task="fog", seed=seed) for method in ("b", "a") for seed in (1, 0)]
    there, back = compare(records), compare(records[::-1])
    assert leaderboard.tidy_csv(there) == leaderboard.tidy_csv(back)
    text = render.markdown(leaderboard.ranking(there))
    assert text == render.markdown(leaderboard.ranking(back))
    assert "2026" not in text, "no times of day"


def test_report_of_several_folders(cli: Cli, tmp_path: Path) -> None:
    fill(tmp_path / "one")
    fill(tmp_path / "two", suite="t")
    status, _, err = cli("report", tmp_path / "one", tmp_path / "two")
    assert (status, "pass --out DIR" in err) == (2, True)
    words = ("report", tmp_path / "one", tmp_path / "two", "--format", "terminal,md,csv,latex")
    status, shown, _ = cli(*words, "--out", tmp_path / "out")
    assert status == 0
    assert "s: accuracy (%)" in shown
    assert "t: accuracy (%)" in shown
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"s", "t"}
    names = {"report.md", "leaderboard.md", "leaderboard.csv", "report.tex"}
    names |= {f"{table}.{kind}" for table in ("accuracy", "time") for kind in ("csv", "tex")}
    assert {path.name for path in (tmp_path / "out" / "s").iterdir()} == names


def test_report_on_the_screen_alone_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    fill(tmp_path / "run")
    status, shown, _ = cli("report", tmp_path / "run", "--format", "terminal")
    assert (status, "Written" in shown, (tmp_path / "run" / "report").exists()) == (0, False, False)


def test_the_page_is_one_of_the_formats(cli: Cli, tmp_path: Path) -> None:
    fill(tmp_path / "run")
    status, shown, _ = cli("report", tmp_path / "run", "--format", "html", "--out", tmp_path / "out")
    assert status == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    assert "accuracy" not in shown


def test_the_outline_that_the_page_reads_agrees_with_the_predictions(tmp_path: Path) -> None:
    fill(tmp_path)
    runs = Runs([tmp_path])
    for record in runs.records:
        whole, outline = runs.predictions(record.cell), runs.outline(record.cell)
        assert np.array_equal(whole.correct, outline.correct)
        assert np.array_equal(whole.index, outline.index)


def test_no_samples_of_another_length(tmp_path: Path) -> None:
    store = fill(tmp_path, {"source": 0.6})
    order = np.arange(10)
    record = make_record("sar", task="fog")
    save(store, record, order, order < 5)
    with pytest.raises(UserError, match="its images or labels differ from those of other records of this stream"):
        Runs([tmp_path])
