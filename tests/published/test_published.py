"""Published results as data: the board's records, loaded by one call."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest

import tta_bench
from tests.support.checkout import ROOT
from tests.support.cli import Cli
from tta_bench.errors import UserError
from tta_bench.published import results
from tta_bench.published.__main__ import collect

SUITE = "digits-c-5"


def test_the_package_has_the_boards_records() -> None:
    made = collect(ROOT / "results" / "board")
    assert sorted(made) == results.names()
    for suite, content in made.items():
        assert (results.HOME / f"{suite}{results.SUFFIX}").read_bytes() == content, "run `make published`"


def test_averages_are_those_of_the_published_table() -> None:
    found = tta_bench.load_results(SUITE)
    with (ROOT / "results" / "digits-c-5-all" / "leaderboard.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["label"] == "tent"]

    assert found["method"].nunique() == 19
    tent = found[found["method"] == "tent"]
    assert tent["accuracy"].mean() == pytest.approx(100 * mean(float(row["top1"]) for row in rows), abs=0.01)
    assert len(found) == 19 * 15 * 3


@pytest.mark.parametrize(
    ("suite", "rows"),
    [
        ("cifar10-c-5-resnet20", ["source", "bn-test", "tent", "eata", "sar"]),
        ("cifar10-c-5-vit-s", ["source", "tent", "eata", "sar", "dpal", "dpal-official"]),
    ],
)
def test_photographs_are_those_of_the_committed_table_in_its_order(suite: str, rows: list[str]) -> None:
    found = results.comparison(suite)
    with (ROOT / "results" / suite / "accuracy.csv").open() as file:
        averages = {row["method"]: float(row["Avg."]) for row in csv.DictReader(file)}
    assert [row.label for row in found.rows][: len(rows)] == rows
    for row in found.rows:
        assert 100 * mean(record.scores.top1 for record in row.done) == pytest.approx(averages[row.label], abs=0.005)
    first = [record.cell.spec.name for record in found.rows[0].done]
    assert first[:2] == ["gaussian_noise", "shot_noise"]


def test_it_needs_no_torch_and_an_unknown_suite_is_one_line() -> None:
    code = "import sys; sys.modules['torch'] = None; import tta_bench; print(len(tta_bench.load_results('digits-c-5')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "855"
    with pytest.raises(UserError, match="no published results of 'digits-c-4'; did you mean 'digits-c-5'"):
        tta_bench.load_results("digits-c-4")
    with pytest.raises(
        UserError, match="suite: expected a name, one of cifar10-c-5-resnet20, cifar10-c-5-vit-s, digits-c-5, got 5"
    ):
        tta_bench.load_results(5)  # type: ignore[arg-type]


def test_the_command_lists_shows_and_writes(cli: Cli, tmp_path: Path) -> None:
    assert cli("results")[1].splitlines() == [
        "cifar10-c-5-resnet20: 5 methods, 75 cells",
        "cifar10-c-5-vit-s: 11 methods, 165 cells",
        "digits-c-5: 19 methods, 855 cells",
    ]
    _, shown, _ = cli("results", SUITE, "--out", tmp_path / "all.csv")
    assert "cfa" in shown
    with (tmp_path / "all.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 855


def test_a_damaged_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = results.records(SUITE)[:2]
    content = results.to_bytes(first)
    (tmp_path / f"mine{results.SUFFIX}").write_bytes(content)
    (tmp_path / f"other{results.SUFFIX}").write_bytes(content[:-40])
    monkeypatch.setattr(results, "HOME", tmp_path)
    assert {record.cell.key for record in results.records("mine")} == {record.cell.key for record in first}
    with pytest.raises(UserError, match="cannot be read"):
        results.records("other")


def test_published_rows_stand_beside_ones_own_on_the_same_streams(tmp_path: Path) -> None:
    ran = tta_bench.run(methods=["lame"], suite=SUITE, tasks=["fog"], beside="published", out=tmp_path / "run")
    rows = dict(ran.table().table.rows)

    board = tta_bench.load_results(SUITE)
    fog = board[(board["task"] == "fog") & (board["seed"] == 0)].set_index("method")["accuracy"]
    assert len(rows) == 19
    assert rows["lame"][0].mean == pytest.approx(fog["lame"])  # run here: it replaces the published row
    assert rows["tent (published)"][0].mean == pytest.approx(fog["tent"])


def test_other_streams_have_no_published_rows(tmp_path: Path) -> None:
    given = {"suite": SUITE, "tasks": ["fog"], "limit": 32, "out": tmp_path / "run"}
    ran = tta_bench.run(methods=["source"], beside="published", **given)
    with pytest.raises(UserError, match="no published row has the streams"):
        ran.table()
    with pytest.raises(UserError, match="beside: expected published, got 'paper'"):
        tta_bench.run(methods=["source"], beside="paper", **given)


def test_a_suite_without_published_rows_is_refused_before_it_runs(tmp_path: Path, cli: Cli) -> None:
    with pytest.raises(
        UserError,
        match=r"beside published: no results of 'demo' are published \(published: cifar10-c-5-resnet20, cifar10-c",
    ):
        tta_bench.run(methods=["source"], beside="published", limit=8, out=tmp_path / "run")
    words = ("--methods", "source", "--limit", "8", "--out", tmp_path / "run")
    status, _, err = cli("run", *words, "--beside", "published")
    assert (status, "--beside published: no results of 'demo'" in err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_the_command_shows_them_after_its_own_tables(tmp_path: Path, cli: Cli) -> None:
    words = ("--methods", "source", "--suite", SUITE, "--tasks", "fog", "--out", tmp_path / "run")
    status, shown, _ = cli("run", *words, "--beside", "published")
    assert status == 0
    assert "tent (published)" in shown
    assert "published" not in (tmp_path / "run" / "report" / "report.md").read_text()
