"""A stranger's choice and preset: listed, run, verified, and refused in one line where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plugins import install, tta_bench
from tta_bench.board.submission import FILE

CODE = """
from dataclasses import dataclass
from tta_bench.streams.axes.labels import Labels

OURS = "continual+backwards"
WRONG = 7

@dataclass(frozen=True)
class Backwards(Labels):
    word = "backwards"
    about = "last image first"

    def order(self, labels, names):
        return range(len(labels))[::-1]
"""
ENTRIES = "backwards = theirs:Backwards\nours = theirs:OURS\nwrong = theirs:WRONG"


BROKEN = """
from dataclasses import dataclass
from tta_bench.streams.axes.base import Choice
from tta_bench.streams.axes.labels import Labels
from tta_bench.streams.axes.prior import Prior

LOOP = "continual+loop"
TYPO = "continual+dirichlt:0.1"

class Silent(Labels):
    word = "silent"

@dataclass(frozen=True)
class Empty(Labels):
    word = "empty"
    about = "nothing"

    def order(self, labels, names):
        return []

@dataclass(frozen=True)
class Sizes(Prior):
    word = "sizes"
    about = "raises"

    def keep(self, labels, names):
        raise ValueError("boom")

@dataclass(frozen=True)
class Restart(Choice):
    word = "restart"
    axis = "reset"
    about = "has no policy"

@dataclass(frozen=True)
class Bare(Labels):
    word = "bare"
    about = "its setting is no option"
    number: int = 3
"""
MISTAKES = {
    "loop": "scenario 'loop' of theirs is a preset of itself",
    "typo": "unknown scenario 'dirichlt'",
    "silent": "scenario 'silent' of theirs: expected the text of a composition, or a subclass of",
    "empty": "--scenario normal+empty shows no image",
    "sizes": "--scenario normal+sizes: ValueError: boom",
    "restart": "AttributeError: 'Restart' object has no attribute 'policy'",
    "bare:4": "scenario 'bare': KeyError: 'read'",
}


def test_a_strangers_mistake_is_one_line(tmp_path: Path) -> None:
    classes = [f"{name.lower()} = theirs:{name}" for name in ("Silent", "Empty", "Sizes", "Restart", "Bare")]
    install(
        tmp_path / "site", "theirs", "\n".join(["loop=theirs:LOOP", "typo=theirs:TYPO", *classes]), BROKEN, "scenarios"
    )
    listed = tta_bench(tmp_path / "site", "list", "scenarios")
    assert listed.returncode == 0, listed.stderr
    assert "scenario 'typo' of theirs: unknown scenario 'dirichlt'" in listed.stdout + listed.stderr
    words = ("run", "--suite", "digits-c-5", "--tasks", "fog", "--methods", "source", "--in-process")
    for scenario, said in MISTAKES.items():
        ran = tta_bench(tmp_path / "site", *words, "--scenario", scenario, "--out", tmp_path / "run")
        assert said in ran.stderr, ran.stderr
        assert "Traceback" not in ran.stderr
        assert ran.returncode == 2


@pytest.mark.slow
def test_a_strangers_stream_works_everywhere(tmp_path: Path) -> None:
    install(tmp_path / "site", "theirs", ENTRIES, CODE, "scenarios")
    listed = tta_bench(tmp_path / "site", "list", "scenarios").stdout
    assert "last image first" in listed
    assert "continual+backwards" in listed
    assert "scenario 'wrong' of theirs: expected the text of a composition" in listed
    words = ("--suite", "digits-c-5", "--tasks", "fog,snow", "--methods", "source", "--limit", "8", "--seeds", "0")
    out = tmp_path / "run"
    ran = tta_bench(tmp_path / "site", "run", *words, "--scenario", "ours", "--out", out, "--in-process")
    assert ran.returncode == 0, ran.stderr
    assert "Measured: " in tta_bench(tmp_path / "site", "report", out).stdout
    there, gone = (tta_bench(site, "verify", out) for site in (tmp_path / "site", tmp_path))
    assert there.returncode == 0, there.stdout
    assert "unknown scenario 'backwards'" in gone.stdout
    assert "Traceback" not in gone.stdout + gone.stderr
    refused = tta_bench(tmp_path / "site", "run", *words, "--scenario", "ours+stored+wrong", "--out", out)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") <= 2


SUITE = """
name: one-digit-streams
about: a small suite of one task
data: {kind: digits-c, severity: 5}
tasks: [contrast]
model: digits-vit
batch_size: 32
methods: {source: {}, tent: {}}
scenario: backwards
"""


@pytest.mark.slow
def test_a_strangers_stream_reaches_the_board(tmp_path: Path) -> None:
    site, run, entry = tmp_path / "site", tmp_path / "run", tmp_path / "board" / "ada"
    install(site, "theirs", ENTRIES, CODE, "scenarios")
    install(site, "smallboard", "smallboard = smallboard_suites", "", group="suites")
    (site / "smallboard_suites").mkdir()
    (site / "smallboard_suites" / "__init__.py").write_text("")
    (site / "smallboard_suites" / "streams.yaml").write_text(SUITE)
    ran = tta_bench(site, "run", "--suite", "one-digit-streams", "--seeds", "0,1,2", "--in-process", "--out", run)
    assert ran.returncode == 0, ran.stderr
    made = tta_bench(site, "board", "new", run, "--out", entry)
    assert made.returncode == 0, made.stderr
    text = (entry / FILE).read_text()
    (entry / FILE).write_text(text.replace("https://TODO", "https://example.org").replace("TODO", "Ada"))
    (tmp_path / "none").mkdir()
    there = tta_bench(site, "board", "check", entry, "--board", tmp_path / "none")
    assert "Traceback" not in there.stdout + there.stderr
    assert "PROBLEM" not in there.stdout, there.stdout
    built = tta_bench(site, "board", "build", "--board", entry.parent, "--out", tmp_path / "html")
    assert built.returncode == 0, built.stderr
    pages = [page.read_text() for page in (tmp_path / "html").rglob("*.html")]
    assert any("backwards" in page for page in pages)
