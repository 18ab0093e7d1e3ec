"""The documentation's site: complete, without a broken link, and without the network."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.chromium import PROGRAM, chromium
from tta_bench.cli.main import parser

SITE = ROOT / "docs" / "site"


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The source folder that Sphinx reads."""
    monkeypatch.syspath_prepend(SITE)
    import build  # type: ignore[import-not-found]

    build.stage(tmp_path)
    return tmp_path


def test_every_page_has_a_place_in_the_menu() -> None:
    menu = re.findall(r"<docs/([\w-]+\.md)>", (SITE / "index.md").read_text())
    assert sorted(menu) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_every_command_and_option_is_in_the_reference(staged: Path) -> None:
    page = (staged / "docs" / "reference" / "commands.md").read_text()
    verbs = parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    for name, verb in verbs.items():  # type: ignore[union-attr,call-arg,arg-type,misc]
        assert f"\n## tta-bench {name}\n" in page
        for option in verb._option_string_actions:
            assert option in ("-h", "--help") or f"`{option}" in page, f"{name} {option}"
    assert "%(" not in page


def test_every_public_name_is_in_the_reference(staged: Path) -> None:
    import tta_bench

    page = (staged / "docs" / "reference" / "api.md").read_text()
    assert [name for name in tta_bench.__all__ if f"### {name}\n" not in page] == ["__version__"]
    empty = re.findall(r"^### (\w+)\n\n```python\n[^`]*```\n\n\n", page, re.MULTILINE)
    assert empty == [], "these have no docstring"


def test_a_broken_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SITE)
    import build

    page = tmp_path / "page.md"
    page.write_text("[gone](nowhere.md)")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="page.md: broken link to nowhere.md"):
        list(build.linked([page]))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("furo") is None, reason="needs the extra [docs]")
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SITE / "build.py", tmp_path / "site"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").glob("*.md")))
    loaded = re.compile(r"<(?:script|img|link)[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*\"")
    assert {found for page in pages for found in loaded.findall(page.read_text())} == set()
    if PROGRAM is None:
        pytest.skip("needs chromium for the rest")
    with chromium(tmp_path / "profile") as browser:
        for width, dark in ((1280, False), (390, True)):
            browser.open(tmp_path / "site" / "docs" / "reference" / "commands.html", width=width, dark=dark)
            assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.problems == []
        assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
