"""Tests do not depend on what their user has set or made, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import isolation
from tests.support.checkout import ROOT
from tta_bench.runs.site import data_root

VARIABLES = {
    "COLUMNS": "40",
    "CUDA_VISIBLE_DEVICES": "-1",
    "HF_HOME": "/theirs",
    "HOME": "/nowhere",
    "LC_ALL": "C",
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "3",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TTA_BENCH_DATA": "/theirs",
    "TTA_BENCH_IN_PROCESS": "",
    "TZ": "Asia/Kolkata",
    "XDG_CACHE_HOME": "/theirs",
}


def test_a_test_stands_in_its_own_folder(tmp_path: Path) -> None:
    assert Path.cwd() == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_no_variable_of_the_user_reaches_tests() -> None:
    plain = isolation.clean_environment({"PATH": "/bin"}, Path("/home"))
    assert isolation.clean_environment({**VARIABLES, "PATH": "/bin"}, Path("/home")) == plain
    assert {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}.items() >= {
        name: value for name, value in plain.items() if name not in ("PATH", "HOME", "HYPOTHESIS_STORAGE_DIRECTORY")
    }.items()
    assert not {"COLUMNS", "NO_COLOR", "TTA_BENCH_DATA", "HF_HOME", "CUDA_VISIBLE_DEVICES"} & set(os.environ)
    assert time.tzname[0] == "UTC"


def test_home_and_data_root_are_temporary_in_subprocesses_too() -> None:
    code = "from pathlib import Path; from tta_bench.runs import site; print(Path.home(), site.data_root(), Path.cwd())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    home = Path(os.environ["HOME"])
    assert done.stdout.strip() == f"{home} {data_root()} {Path.cwd()}"
    assert data_root().is_relative_to(home)
    assert home.name.startswith("tta-bench-home-")
    assert not home.is_relative_to(ROOT)


@pytest.mark.parametrize("test", ["this one", "the next one"])
def test_what_a_test_sets_ends_with_it(test: str) -> None:
    assert "TTA_BENCH_LEFT" not in os.environ
    os.environ["TTA_BENCH_LEFT"] = test


@pytest.mark.parametrize("written", ["checkout/new.txt", "checkout/results/a/table.csv", "cache/data/new.tar"])
def test_a_file_that_a_test_leaves_behind_is_named(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("checkout/results/runs/mine", "checkout/results/a", "checkout/.pytest_cache", "cache/data"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(isolation, "RUNS", tmp_path / "checkout" / "results" / "runs")
    monkeypatch.setattr(isolation, "watched", lambda given: {tmp_path / "checkout": 9, tmp_path / "cache": 2})
    session = isolation.Session()
    (tmp_path / "checkout" / ".pytest_cache" / "lastfailed").write_text("{}")
    (tmp_path / "checkout" / "results" / "runs" / "mine" / "record.json").write_text("the user's run goes on")
    assert session.end() == []
    (tmp_path / written).write_text("left behind")
    assert session.end() == [str(tmp_path / written)]


def test_a_run_that_a_test_leaves_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "RUNS", tmp_path / "results" / "runs")
    monkeypatch.setattr(isolation, "watched", lambda given: {tmp_path: 9})
    session = isolation.Session()
    (tmp_path / "results" / "runs" / "demo").mkdir(parents=True)
    assert session.end() == [str(tmp_path / "results" / "runs" / "demo")]
