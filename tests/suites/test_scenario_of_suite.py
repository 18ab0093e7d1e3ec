"""A suite may name its scenario and sweep a choice of it; the command line replaces both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tta_bench.errors import UserError
from tta_bench.runs.options import RunOptions
from tta_bench.runs.spec import specs
from tta_bench.suites import suite as suites

TEXT = """name: mine
about: a test
data: {kind: digits-c, severity: 5}
tasks: [fog, snow]
model: digits-vit
batch_size: 32
scenario: continual+dirichlet:0.5
methods: {source: {}}
"""


NO_NUMBERS = ["dirichlet: [.nan, 1]", "dirichlet: [.inf, 1]", "long-tail: [.nan, 2]", "open: [0.2, 0.999]"]


def names(tmp_path: Path, more: str = "", **options: str) -> list[str]:
    (tmp_path / "mine.yaml").write_text(TEXT + more)
    return [spec.scenario for spec in specs(suites.load(str(tmp_path / "mine.yaml")), RunOptions(**options))]


def test_a_suite_names_its_scenario(tmp_path: Path) -> None:
    assert names(tmp_path) == ["continual+dirichlet:0.5"]
    assert names(tmp_path, scenario="mixed") == ["mixed"]


def test_a_misspelt_scenario_names_its_suite(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(TEXT.replace("continual", "continal"))
    with pytest.raises(UserError, match=r"suite 'mine': unknown scenario 'continal'; did you mean 'continual'"):
        specs(suites.load(str(tmp_path / "mine.yaml")), RunOptions())


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ("dirichlet: [0.01, 1]", ["continual+dirichlet:0.01", "continual+dirichlet:1"]),
        ("recurring: [2, 20]", ["continual+recurring:2+dirichlet:0.5", "continual+recurring:20+dirichlet:0.5"]),
    ],
)
def test_a_suite_sweeps_a_choice(tmp_path: Path, axis: str, expected: list[str]) -> None:
    sweep = f"sweep: {{{axis}}}\n"
    assert names(tmp_path, sweep) == expected
    assert names(tmp_path, sweep, scenario="mixed") == ["mixed"]


@pytest.mark.parametrize("axis", ["dirichlet: [0, 1]", "recurring: [0, 2]", "recurring: [1.5, 2]", *NO_NUMBERS])
def test_impossible_values_are_refused(tmp_path: Path, axis: str) -> None:
    with pytest.raises(UserError, match="sweep: "):
        names(tmp_path, f"sweep: {{{axis}}}\n")
