"""`--limit` makes a short trial that reaches every task; one that cuts nothing makes a whole run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli
from tta_bench.data.images import ArrayImages
from tta_bench.run.choices import Choices
from tta_bench.run.plan import Plan
from tta_bench.suites import suite
from tta_bench.suites.suite import Scenario

DIGITS = 640  # images of a task


def keys(small_suite: Path, limit: int | None, scenario: Scenario = "normal") -> list[str]:
    plan = Plan(suite.load(str(small_suite)), Choices(limit=limit, scenario=scenario, device="cpu"))
    return [work.cell.key for work in plan.work()]


@pytest.mark.parametrize("scenario", ["normal", "continual"])
def test_a_limit_that_cuts_nothing_shares_cells_with_the_whole_run(small_suite: Path, scenario: Scenario) -> None:
    assert (
        keys(small_suite, DIGITS, scenario)
        == keys(small_suite, DIGITS + 1, scenario)
        == keys(small_suite, None, scenario)
    )
    assert keys(small_suite, DIGITS - 1, scenario) != keys(small_suite, None, scenario)


def test_where_one_task_is_cut_all_cells_are_marked(small_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(suite.load(str(small_suite)), Choices(limit=100, device="cpu", methods=("source",)))
    real = plan.dataset.open

    def uneven(task: str) -> object:
        images = real(task)
        if task == "brightness":
            return images
        return ArrayImages(images.read(range(50)), images.labels[:50], images.ids[:50])  # type: ignore[arg-type]

    monkeypatch.setattr(plan.dataset, "open", uneven)
    cells = {work.cell.name: work for work in plan.work()}
    assert {name: len(work.stream.order) for name, work in cells.items()} == {"contrast": 50, "brightness": 100}
    assert {work.cell.limit for work in cells.values()} == {100}, "or a table would leave the cut ones out"


def test_a_whole_run_is_reportable_whatever_the_limit(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", small_suite, "--methods", "source", "--out", tmp_path / "run")
    assert "NOT REPORTABLE" not in cli(*command, "--limit", 100_000)[1]
    assert "2 of 2 cells were there already" in cli(*command)[1]


def test_a_limited_continual_run_has_every_task(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    _, shown, _ = cli(
        "run", "--suite", small_suite, "--methods", "source", "--out", tmp_path / "run", "--limit", 32,
        "--scenario", "continual",
    )  # fmt: skip
    assert "NOT REPORTABLE" in shown
    assert "missing" not in shown
