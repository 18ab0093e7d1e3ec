"""`--limit` makes a short trial that reaches every task; one that cuts nothing makes a whole run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli
from tests.support.works import works
from tta_bench.data.images import ArrayImages
from tta_bench.datasets.digits_c import DigitsC
from tta_bench.streams.scenarios import scenario_of

DIGITS = 640  # images of a task


def keys(small_suite: Path, limit: int | None, scenario: str = "normal", **choices: Any) -> list[str]:
    return [work.cell.key for work in works(small_suite, limit=limit, scenario=scenario_of(scenario), **choices)]


@pytest.mark.parametrize("scenario", ["normal", "continual"])
def test_a_limit_that_cuts_nothing_shares_cells_with_the_whole_run(small_suite: Path, scenario: str) -> None:
    assert (
        keys(small_suite, DIGITS, scenario)
        == keys(small_suite, DIGITS + 1, scenario)
        == keys(small_suite, None, scenario)
    )
    assert keys(small_suite, DIGITS - 1, scenario) != keys(small_suite, None, scenario)


def test_a_limit_marks_the_streams_that_it_cuts(small_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell's key depends on its own stream only, whatever the other tasks of the command are."""
    real = DigitsC.open

    def uneven(self: DigitsC, task: str) -> object:
        images = real(self, task)
        if task == "brightness":
            return images
        return ArrayImages(images.read(range(50)), images.labels[:50], images.ids[:50])  # type: ignore[arg-type]

    monkeypatch.setattr(DigitsC, "open", uneven)
    cells = {work.cell.name: work for work in works(small_suite, limit=100, methods=("source",))}
    assert {name: len(work.stream.order) for name, work in cells.items()} == {"contrast": 50, "brightness": 100}
    assert {name: work.cell.spec.limit for name, work in cells.items()} == {"contrast": None, "brightness": 100}


@pytest.mark.parametrize("limit", [None, 100])
def test_some_tasks_have_the_keys_of_the_whole(small_suite: Path, limit: int | None) -> None:
    some = keys(small_suite, limit, tasks=("brightness",))
    assert some
    assert set(some) < set(keys(small_suite, limit))


def test_a_run_of_some_tasks_is_part_of_the_whole_run(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", small_suite, "--methods", "source", "--limit", 32, "--out", tmp_path / "run")
    assert "[1/1]" in cli(*command, "--tasks", "brightness")[1]
    assert "Reused 1 of 2 cells" in cli(*command)[1]
    status, _, err = cli(*command, "--tasks", "brigtness")
    assert (status, err.count("\n")) == (2, 1)
    assert "suite 'small' has no task 'brigtness'; did you mean 'brightness'?" in err


def test_a_whole_run_is_reportable_whatever_the_limit(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", small_suite, "--methods", "source", "--out", tmp_path / "run")
    assert "NOT REPORTABLE" not in cli(*command, "--limit", 100_000)[1]
    assert "Reused 2 of 2 cells" in cli(*command)[1]


def test_a_limited_continual_run_has_every_task(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    _, shown, _ = cli(
        "run", "--suite", small_suite, "--methods", "source", "--out", tmp_path / "run", "--limit", 32,
        "--scenario", "continual",
    )  # fmt: skip
    assert "NOT REPORTABLE" in shown
    assert "missing" not in shown
