"""A third-party package provides a method: installed metadata is enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import SMALL
from tests.support.plugins import MINE, install, tta_bench


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(tmp_path / "site", "mine", "mine = mine:Mine", MINE)
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path / "site"


def test_an_outside_method_runs_through_the_command_line(site: Path, tmp_path: Path) -> None:
    done = tta_bench(
        site, "run", "--suite", tmp_path / "small.yaml", "--methods", "source,mine", "--limit", 64,
        "--set", "mine.strength=0.5", "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mine" in done.stdout


EDITOR = """
import sys
from pathlib import Path
import tta_bench
from tta_bench.runs.watcher import Watcher

suite, out, file = sys.argv[1:]

class Editor(Watcher):
    def on_record(self, record, is_new):
        print(record.cell.spec.seed, record.status)
        code = Path(file).read_text()
        Path(file).write_text(code.replace("- self.strength", "+ self.strength"))

tta_bench.run(["mine"], suite, tasks=["contrast"], seeds=[0, 1], limit=32, device="cpu", out=out, watcher=Editor())
"""


@pytest.mark.slow
def test_code_that_is_edited_during_a_run_stops_it(site: Path, tmp_path: Path) -> None:
    """Else the numbers of the new code would be kept under the key of the old code."""
    words = [sys.executable, "-c", EDITOR, tmp_path / "small.yaml", tmp_path / "run", site / "mine.py"]
    environ = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "TTA_BENCH_IN_PROCESS": ""}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environ)
    assert done.stdout == "0 done\n"
    said = "RunStopped: the code of 'mine' changed since this run started: start it again"
    assert done.stderr.splitlines()[-1].startswith(f"tta_bench.errors.{said}")
    again = tta_bench(
        site, "run", "--suite", tmp_path / "small.yaml", "--methods", "mine", "--tasks", "contrast", "--seeds", "0,1",
        "--limit", 32, "--device", "cpu", "--out", tmp_path / "run",
    )  # fmt: skip
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_a_plug_in_that_raises_on_import_does_not_affect_others(site: Path, tmp_path: Path) -> None:
    install(site, "broken", "broken = broken:Broken", "raise RuntimeError('no licence')")
    listed = tta_bench(site, "list", "methods")
    assert listed.returncode == 0
    said = "method 'broken' of broken cannot be imported (broken:Broken): RuntimeError: no licence"
    assert said in " ".join(listed.stdout.split())
    assert "nobody, 2026" in listed.stdout
    ran = tta_bench(site, "run", "--methods", "broken", "--out", tmp_path / "run")
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "no licence" in ran.stderr
    assert not (tmp_path / "run").exists()


def test_a_name_that_the_command_line_cannot_take_is_listed_as_broken(site: Path) -> None:
    install(site, "spoken", "my method = spoken:Mine", MINE)
    listed = tta_bench(site, "list", "methods")
    assert listed.returncode == 0
    said = "method 'my method' of spoken cannot be used: its name may have letters, digits, '-', '_' and '.' only"
    assert said in " ".join(listed.stdout.split())
    assert "nobody, 2026" in listed.stdout


def test_a_name_claimed_twice_names_both(site: Path) -> None:
    install(site, "thief", "tent = thief:Mine", MINE)
    ran = tta_bench(site, "run", "--methods", "tent")
    assert ran.returncode == 2
    assert "'tent' is claimed by " in ran.stderr
    assert "thief" in ran.stderr
    assert "tta-bench" in ran.stderr


@pytest.mark.slow
def test_editing_a_method_changes_its_cells(site: Path, tmp_path: Path) -> None:
    command = (
        "run",
        "--suite",
        tmp_path / "small.yaml",
        "--methods",
        "source,mine",
        "--limit",
        32,
        "--out",
        tmp_path / "run",
    )
    tta_bench(site, *command)
    (site / "mine.py").write_text(MINE.replace("self.strength * self.mean", "2 * self.strength * self.mean"))
    again = tta_bench(site, *command)
    assert "mine           contrast" in again.stdout, "an edited method must run again"
    assert "source         contrast" not in again.stdout, "the others must not"
