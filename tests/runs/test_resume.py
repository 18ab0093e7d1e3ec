"""Running the same command again: finished cells stay, damaged ones run again, and both are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Cli
from tta_bench.records.record import Record
from tta_bench.runs import execute as bench


def command(small_suite: Path, *more: object) -> tuple[object, ...]:
    return ("run", "--suite", small_suite, "--out", small_suite.parent / "run", "--methods", "source", *more)


def test_a_first_run_reuses_nothing(cli: Cli, small_suite: Path) -> None:
    assert "Reused" not in cli(*command(small_suite, "--limit", 32))[1]


def test_resuming_reports_how_much_was_reused(cli: Cli, small_suite: Path) -> None:
    cli(*command(small_suite, "--limit", 32))
    _, shown, _ = cli(*command(small_suite, "--limit", 32, "--seeds", "0,1"))
    assert "Reused 2 of 4 cells (use --fresh to run them again)." in shown


@pytest.mark.parametrize("damage", ["missing", "cut off", "flipped"])
def test_a_cell_with_incomplete_predictions_runs_again(cli: Cli, small_suite: Path, damage: str) -> None:
    cli(*command(small_suite, "--limit", 32))
    path = min((small_suite.parent / "run" / "cells").glob("*.npy"))  # of brightness
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "cut off":
        path.write_bytes(whole[: len(whole) // 2])
    else:
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    status, _, err = cli("report", small_suite.parent / "run")
    assert (status, path.name in err, err.count("\n")) == (2, True, 1), "no table without its evidence"
    status, shown, _ = cli(*command(small_suite, "--limit", 32))
    assert status == 0
    said = next(line for line in shown.splitlines() if line.startswith(f"WARNING {path}: "))
    assert said.endswith(f": moved it to {path.parents[1] / 'damaged'}, running its cell again")
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


def test_a_damaged_record_is_moved_aside_and_runs_again(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    words = ("run", "--suite", small_suite, "--limit", 32, "--out", tmp_path / "out", "--methods", "source")
    assert cli(*words)[0] == 0
    first, second = sorted((tmp_path / "out" / "cells").glob("*.json"))
    before = first.read_bytes()
    first.write_bytes(before.replace(b'"top1": 0', b'"top1": 1', 1))
    status, _, err = cli("report", tmp_path / "out")
    assert (status, first.name in err, err.count("\n")) == (2, True, 1)
    status, shown, _ = cli(*words)
    assert status == 0
    assert f"WARNING {first.name} is damaged: renamed it to {tmp_path / 'out' / 'damaged' / first.name}" in shown
    assert "Reused 1 of 2 cells" in shown
    assert Record.from_bytes(first.read_bytes(), "x").scores.top1 == Record.from_bytes(before, "x").scores.top1
    assert second.exists()


def test_a_record_of_another_version_is_neither_read_nor_moved(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    words = ("run", "--suite", small_suite, "--limit", 32, "--out", tmp_path / "out", "--methods", "source")
    assert cli(*words)[0] == 0
    first = min((tmp_path / "out" / "cells").glob("*.json"))
    first.write_text('{"schema": 1}')
    status, _, err = cli(*words)
    assert (status, err.count("\n")) == (2, 1)
    assert f"{first.name}: written by another version of tta-bench (schema 1, here" in err
    assert first.exists()
