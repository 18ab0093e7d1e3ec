"""How often methods make the host wait for a GPU, and what they compute there, on a simulated one."""

from __future__ import annotations

import pytest

from benchmarks import waits

PAGE = waits.PAGE.read_text(encoding="utf-8")
GOALS = {"sar": 2, "dpal": 2, "deyo": 2, "t3a": 3, "adacontrast": 4, "memo": 4}
every_method = pytest.mark.parametrize("name", waits.NAMES)


@pytest.mark.slow  # `make timing-exact` checks the same page in CI
@every_method
def test_a_method_waits_as_often_as_the_page_says(name: str) -> None:
    assert waits.row(name) == waits.shown(PAGE)[name], "python -m benchmarks.waits --write accepts a change"
    assert waits.measure(name).most.total() <= GOALS.get(name, 4)


def test_the_page_has_a_line_for_every_method() -> None:
    assert [*waits.shown(PAGE)] == waits.NAMES


@pytest.mark.slow
@every_method
def test_pass_counts_do_not_depend_on_the_device(name: str) -> None:
    """Images are large and some samples are chosen, where a CPU might be served better by other passes."""
    assert waits.measure(name, "cpu").passes == waits.measure(name, "cuda").passes


def test_a_changed_line_of_the_page_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "NAMES", ["source", "sar"])
    page = "<!-- python -m benchmarks.waits --write -->\n| method | waits | for |\n|---|---:|---|\n{}<!-- end -->\n"
    right = page.format(waits.row("source") + waits.row("sar"))
    assert waits.differences(right) == []
    assert [line.partition(":")[0] for line in waits.differences(right.replace("| 2 |", "| 1 |"))] == ["sar"]
    assert [line.partition(":")[0] for line in waits.differences(right.replace(waits.row("sar"), ""))] == ["sar"]
