"""A method's seed is the cell's unless it is set; then it is fixed, and all seeds share one row."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import Cli
from tests.support.records import make_cell
from tta_bench.report.rows import compare
from tta_bench.report.runs import Runs


def test_a_seed_that_is_set_makes_one_row_over_all_seeds(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", small_suite, "--methods", "dpal", "--limit", 32, "--out", tmp_path / "run")
    cli(*command, "--seeds", "0,1")
    status, shown, _ = cli(*command, "--seeds", "0,1", "--set", "dpal.seed=0")
    assert status == 0
    assert "WARNING" not in shown
    rows = compare(Runs([tmp_path / "run"]).records).rows
    found = {
        row.label.split(" (")[0] + str(" (" in row.label): sorted(r.cell.spec.seed for r in row.records) for row in rows
    }
    assert found == {"dpalFalse": [0, 0, 1, 1], "dpalTrue": [0, 0, 1, 1]}


def test_a_seed_taken_from_the_cell_does_not_split_rows() -> None:
    follows = [make_cell("dpal", seed=seed, settings={"lr": 1, "seed": seed}) for seed in (0, 1)]
    stays = [make_cell("dpal", seed=seed, settings={"lr": 1, "seed": 0}, seed_is_set=True) for seed in (0, 1)]
    assert [cell.own_settings for cell in follows] == [{"lr": 1}] * 2
    assert [cell.own_settings for cell in stays] == [{"lr": 1, "seed": 0}] * 2
    assert follows[0].key != stays[0].key
