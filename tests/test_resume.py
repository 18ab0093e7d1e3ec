"""Running the same command again: what is finished stays, what is damaged runs again, and both are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli
from tta_bench.runs import execute as bench


def command(small_suite: Path, *more: object) -> tuple[object, ...]:
    return ("run", "--suite", small_suite, "--out", small_suite.parent / "run", "--methods", "source", *more)


def test_a_first_run_reuses_nothing(cli: Cli, small_suite: Path) -> None:
    assert "Reused" not in cli(*command(small_suite, "--limit", 32))[1]


def test_resuming_says_how_much_was_there(cli: Cli, small_suite: Path) -> None:
    cli(*command(small_suite, "--limit", 32))
    _, shown, _ = cli(*command(small_suite, "--limit", 32, "--seeds", "0,1"))
    assert "Reused 2 of 4 cells (use --fresh to run them again)." in shown


@pytest.mark.parametrize("damage", ["missing", "cut off"])
def test_a_cell_without_whole_predictions_runs_again(cli: Cli, small_suite: Path, damage: str) -> None:
    cli(*command(small_suite, "--limit", 32))
    path = min((small_suite.parent / "run" / "cells").glob("*.npz"))  # of brightness
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(whole[: len(whole) // 2])
    assert cli("report", small_suite.parent / "run")[0] == 0, "tables need no predictions"
    status, shown, _ = cli(*command(small_suite, "--limit", 32))
    assert status == 0
    assert "source on brightness, seed 0: predictions are missing or truncated, running it again" in shown
    assert "Reused 1 of 2 cells" in shown
    assert path.read_bytes() == whole


def test_a_failed_cell_needs_no_predictions(cli: Cli, small_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(work: bench.Work, on_batch: object) -> object:
        raise ValueError("no luck")

    monkeypatch.setattr(bench, "run_cell", breaks)
    cli(*command(small_suite, "--limit", 32))
    _, shown, _ = cli(*command(small_suite, "--limit", 32))
    assert "cut off" not in shown
    assert "Reused" not in shown


def test_a_damaged_record_is_told_before_anything_runs(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    words = ("run", "--suite", small_suite, "--limit", 32, "--out", tmp_path / "out")
    assert cli(*words, "--methods", "source")[0] == 0
    cells = sorted((tmp_path / "out" / "cells").glob("*.json"))
    cells[0].write_text("{")
    code, _, err = cli(*words, "--methods", "tent")
    assert (code, err.count("\n")) == (2, 1)
    assert cells[0].name in err
    assert sorted((tmp_path / "out" / "cells").glob("*.json")) == cells, "no cell has run"
