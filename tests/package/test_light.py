"""Without torch, timm, Pillow, scipy and scikit-learn results can be read; what cannot be done says what to install."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
import venv
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from tests.support import light
from tests.support.checkout import ROOT, copied
from tests.support.cli import Cli
from tests.support.records import keep, make_record
from tta_bench.errors import LEFT_OUT
from tta_bench.records.store import Store

PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn"}


def run_light(*commands: tuple[object, ...], everything: bool = False) -> list[list[Any]]:
    """Exit status, stdout and stderr of each command without the packages that a light install leaves out."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    command = [sys.executable, light.__file__, words, *(["everything"] if everything else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found: list[list[Any]] = json.loads(done.stdout)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store.create(tmp_path / "run", "imagenet-c-5")
    for method, top1 in (("source", 0.3), ("sar", 0.6)):
        keep(store, make_record(method, top1, suite="imagenet-c-5", data={"kind": "imagenet-c", "severity": 5}))
    return store.folder


def test_what_is_there_is_listed_in_full() -> None:
    commands = [
        *(("list", what) for what in ("methods", "suites", "models", "datasets")),
        ("suite", "schema"),
        ("suite", "copy", "imagenet-c-5"),
        ("run", "--help"),
    ]
    for found, full in zip(run_light(*commands), run_light(*commands, everything=True), strict=True):
        assert found == full, _differences(found[1], full[1])


def _differences(light: str, full: str) -> str:
    return "\n".join(unified_diff(light.splitlines(), full.splitlines(), "light", "full", n=0))


def test_reports_are_complete(folder: Path, tmp_path: Path, cli: Cli) -> None:
    words = ("report", folder, "--format", "terminal,md,csv,latex,html", "--paper", "--out")
    ((status, out, err),) = run_light((*words, tmp_path / "light"))
    assert (status, err) == (0, "")
    assert "measured and paper" in out
    cli(*words, tmp_path / "full")
    names = {path.name for path in (tmp_path / "full").iterdir()}
    assert {"report.md", "report.html", "paper.csv", "report.tex"} <= names
    for name in names:
        assert (tmp_path / "light" / name).read_bytes() == (tmp_path / "full" / name).read_bytes()


def test_verify_says_what_it_cannot_check(folder: Path) -> None:
    ((status, out, err),) = run_light(("verify", folder))
    assert err == ""
    assert status in (0, 1)  # made records hold no suite's labels
    assert "not checked" in out


def test_compare_gives_its_intervals(folder: Path, cli: Cli) -> None:
    words = ("compare", folder, "--a", "source", "--b", "sar")
    (found,) = run_light(words)
    assert found[0] == 0
    assert tuple(found) == cli(*words)


def test_what_needs_torch_says_so_in_one_line(tmp_path: Path) -> None:
    commands = [
        ("run",),
        ("check",),
        ("inspect", "--method", "dpal", "--tasks", "fog"),
        ("train-source", "digits"),
        ("profile", "--method", "tent"),
        ("timing", "record", "--out", "t.json"),
        ("tune", "--method", "tent", "--grid", "lr=1e-3,1e-2"),
        ("run", "--jobs", "2", "--out", tmp_path / "run"),
    ]
    for status, _, err in run_light(*commands):
        assert status == 2
        (line,) = err.splitlines()
        assert "which is not installed: pip install tta-bench" in line


def declared() -> list[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return [line for line in setup["options"]["install_requires"].split("\n") if line]


def test_the_light_requirements_are_those_of_a_run_without_what_is_left_out() -> None:
    lines = (ROOT / "requirements-report.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    left = {PACKAGES.get(name, name) for name in LEFT_OUT}
    assert wanted == [line for line in declared() if line.partition(">=")[0] not in left]


@pytest.mark.slow
def test_a_light_install_reads_results(folder: Path, tmp_path: Path) -> None:
    """As in README: needs PyPI."""
    source = copied(ROOT, tmp_path / "source")
    venv.create(tmp_path / "venv", with_pip=True)
    place = tmp_path / "venv" / "bin"
    for words in (["-r", source / "requirements-report.txt"], ["--no-deps", source]):
        subprocess.run([place / "pip", "install", "--quiet", *words], check=True)
    for command in (["list", "methods"], ["report", folder], ["compare", folder, "--a", "source", "--b", "sar"]):
        done = subprocess.run([place / "tta-bench", *command], capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    refused = subprocess.run([place / "tta-bench", "run"], capture_output=True, text=True, cwd=tmp_path)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
