"""The whole way of a stranger: a package → run → pack → board check → site. The check runs nothing of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chromium import PROGRAM, chromium
from tests.support.plugins import MINE, install, tta_bench
from tta_bench.board.submission import FILE

SUITE = """
name: one-digit-board
about: a small suite of one task
data: {kind: digits-c, severity: 5}
tasks: [contrast]
model: digits-vit
batch_size: 32
methods: {source: {}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stranger's package with a method, and the package of the board with a suite of one task."""
    folder = tmp_path_factory.mktemp("way") / "site"
    install(folder, "mine", "mine = mine:Mine", MINE)
    install(folder, "smallboard", "smallboard = smallboard_suites", "", group="suites")
    home = folder / "smallboard_suites"
    home.mkdir()
    (home / "__init__.py").write_text("")
    (home / "board.yaml").write_text(SUITE)
    (home / "holdout.yaml").write_text(SUITE.replace("digit-board", "digit-holdout").replace("contrast", "saturate"))
    return folder


@pytest.fixture(scope="module")
def mine(site: Path) -> Path:
    """A submission, made as docs/board.md says."""
    run, folder = site.parent / "run", site.parent / "incoming" / "mine"
    command = ("run", "--suite", "one-digit-board", "--methods", "source,mine", "--seeds", "0,1,2", "--in-process")
    ran = tta_bench(site, *command, "--out", run)
    assert ran.returncode == 0, ran.stderr
    made = tta_bench(site, "board", "new", run, "--out", folder)
    assert made.returncode == 0, made.stderr
    text = (folder / FILE).read_text()
    assert "name: mine" in text, "the package is known"
    for old, new in (
        ("TODO: one sentence on what is new", "Averages logits over batches"),
        ("TODO: the data that settings were chosen on, or defaults", "one-digit-holdout"),
        ("https://TODO", "https://example.org"),
        ("TODO", "Ada"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / FILE).write_text(text)
    return folder


def test_a_strangers_method_reaches_the_board(site: Path, mine: Path, tmp_path: Path) -> None:
    code = (site / "mine.py").read_text()
    (site / "mine.py").write_text("raise SystemExit('code of the submission ran')")
    comment = tmp_path / "comment.md"
    checked = tta_bench(site, "board", "check", mine, "--comment", comment)
    (site / "mine.py").write_text(code)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "mine: accepted" in comment.read_text()
    assert "Source scores its reference" in comment.read_text()


@pytest.mark.skipif(PROGRAM is None, reason="no chromium found: apt-get install chromium")
def test_its_row_is_on_the_site(site: Path, mine: Path, tmp_path: Path) -> None:
    built = tta_bench(site, "board", "build", "--board", mine.parent, "--out", tmp_path / "site")
    assert built.returncode == 0, built.stderr
    with chromium(tmp_path / "profile") as browser:
        browser.open(tmp_path / "site/suites/one-digit-board.html")
        names = "[...document.querySelectorAll('table.board tbody tr')].map(e => e.dataset.name)"
        assert sorted(browser.run(names)) == ["mine", "source"]
        browser.click("tr[data-name=mine] th a")
        browser.wait("document.querySelector('article')?.innerText.includes('Averages logits over batches')")
        assert browser.problems == []


@pytest.mark.slow
def test_a_rerun_by_a_maintainer_is_noted(site: Path, mine: Path) -> None:
    again = tta_bench(site, "board", "check", mine, "--rerun", "1", "--by", "Grace", "--seed", "0")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Noted: run again by Grace, 1 cells, bit for bit" in again.stdout
    assert "by: Grace" in (mine / FILE).read_text()
