"""The whole way of a stranger: a package → run → pack → board check. The check runs nothing of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_plugin import MINE, install, tta_bench
from tta_bench.board.submission import FILE

SUITES = """
for_each: {part: [board, holdout]}
name: one-digit-{part}
about: a small suite of one task
data: {kind: digits-c, severity: 5}
tasks: [contrast]
model: digits-vit
batch_size: 32
methods: {source: {}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A stranger's package with a method, and the package of the board with a suite of one task."""
    folder = tmp_path / "site"
    install(folder, "mine", "mine = mine:Mine", MINE)
    install(folder, "smallboard", "smallboard = smallboard_suites", "", group="suites")
    (folder / "smallboard_suites").mkdir()
    (folder / "smallboard_suites" / "__init__.py").write_text("")
    held_out = SUITES.replace("{part: [board, holdout]}", "{part: [holdout]}").replace("[contrast]", "[saturate]")
    (folder / "smallboard_suites" / "board.yaml").write_text(SUITES.replace("[board, holdout]", "[board]"))
    (folder / "smallboard_suites" / "holdout.yaml").write_text(held_out)
    return folder


def test_a_strangers_method_reaches_the_board(site: Path, tmp_path: Path) -> None:
    run, mine = tmp_path / "run", tmp_path / "incoming" / "mine"
    command = ("run", "--suite", "one-digit-board", "--methods", "source,mine", "--seeds", "0,1,2", "--in-process")
    ran = tta_bench(site, *command, "--out", run)
    assert ran.returncode == 0, ran.stderr
    made = tta_bench(site, "board", "new", run, "--out", mine)
    assert made.returncode == 0, made.stderr
    text = (mine / FILE).read_text()
    assert "name: mine" in text, "the package is known"
    for old, new in (
        ("TODO: one sentence on what is new", "Averages logits over batches"),
        ("TODO: the data that settings were chosen on, or defaults", "one-digit-holdout"),
        ("https://TODO", "https://example.org"),
        ("TODO", "Ada"),
    ):
        assert old in text
        text = text.replace(old, new)
    (mine / FILE).write_text(text)
    (site / "mine.py").write_text("raise SystemExit('code of the submission ran')")
    comment = tmp_path / "comment.md"
    checked = tta_bench(site, "board", "check", mine, "--comment", comment)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "accepted" in comment.read_text()
    assert "Source scores its reference" in comment.read_text()


def test_a_rerun_by_a_maintainer_is_noted(site: Path, tmp_path: Path) -> None:
    """Of a run that is not complete: a maintainer may look first."""
    run, mine = tmp_path / "run", tmp_path / "mine"
    command = ("run", "--suite", "one-digit-board", "--methods", "source,mine", "--in-process", "--out", run)
    assert tta_bench(site, *command).returncode == 0
    assert tta_bench(site, "board", "new", run, "--out", mine).returncode == 0
    again = tta_bench(site, "board", "check", mine, "--rerun", "1", "--by", "Grace", "--seed", "0")
    assert again.returncode == 1, "a seed is missing"
    assert "Noted: run again by Grace, 1 cells, bit for bit" in again.stdout, again.stdout + again.stderr
    assert "by: Grace" in (mine / FILE).read_text()
