"""The example of a package: installed as it is, it brings a method, a dataset, a model, a metric and a suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT, copied
from tests.support.plugins import tta_bench

EXAMPLE = ROOT / "examples" / "tta-bench-plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip makes of the example, apart from this environment."""
    folder = tmp_path_factory.mktemp("example")
    copied(EXAMPLE, folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-build-isolation", "--target", str(folder / "site"), str(folder / "source")]
    subprocess.run([*pip, *alone], check=True)
    return folder / "site"


@pytest.mark.slow
def test_its_suite_runs_with_its_method(site: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", "shapes", "--methods", "source,last-norm", "--out", tmp_path / "run")
    ran = tta_bench(site, *command)
    assert ran.returncode == 0, ran.stderr
    assert "last-norm      tint, seed 0: " in ran.stdout
    again = tta_bench(site, *command)
    assert again.returncode == 0, again.stderr
    assert "seed 0: " not in again.stdout, "nothing is left to do"
    shown = tta_bench(site, "report", tmp_path / "run", "--metric", "median-confidence", "--format", "terminal")
    assert (shown.returncode, "median conf. %" in shown.stdout) == (0, True), shown.stderr
    code = site / "tta_bench_plugin" / "dataset.py"
    code.write_text(code.read_text().replace("[1.0, 0.35, 0.1]", "[1.0, 0.3, 0.1]"))
    changed = tta_bench(site, *command)
    assert "last-norm      tint, seed 0: " in changed.stdout, "a changed dataset has other images"


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("methods", "last-norm"),
        ("datasets", "shapes"),
        ("models", "shapes-cnn"),
        ("suites", "shapes"),
        ("metrics", "median-confidence"),
    ],
)
def test_what_it_brings_is_listed_with_its_package(site: Path, what: str, name: str) -> None:
    shown = tta_bench(site, "list", what).stdout
    (row,) = [line for line in shown.splitlines() if line.startswith(f" {name} ")]
    assert row.split()[-1].startswith("tta-bench")
    assert "from: the package that provides it" in " ".join(shown.split())


@pytest.mark.slow
def test_its_own_tests_pass(site: Path, tmp_path: Path) -> None:
    copied(EXAMPLE / "tests", tmp_path / "tests")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "tests"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


def test_its_promises_can_be_checked_from_the_command_line(site: Path) -> None:
    done = tta_bench(site, "check", "--contract", "--methods", "last-norm")
    assert done.returncode == 0, done.stdout
    assert "ok    last-norm: passes all " in done.stdout
