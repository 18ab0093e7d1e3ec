"""A stranger's choice and preset: listed, run, verified, and refused in one line where they are wrong."""

from __future__ import annotations

from pathlib import Path

from tests.support.plugins import install, tta_bench

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
