"""Two revisions of a third-party package, side by side: `timing check --against`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from tta_bench.errors import UserError
from tta_bench.timing.sides import ChildSide

SETUP = """
[metadata]
name = mine
version = 1.0
[options]
py_modules = mine
[options.entry_points]
tta_bench.methods =
    mine = mine:Mine
"""
CODE = """
import time
import torch
from tta_bench import Method

class Mine(Method):
    def adapt(self, batch):
        start = time.perf_counter()
        with torch.no_grad():
            logits = self.model(batch)
        print("a method may print")
        end = time.perf_counter() + {share} * (time.perf_counter() - start)
        while time.perf_counter() < end:
            sum(range(100))
        return logits
"""


def run(*words: object, cwd: Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", **({"PYTHONPATH": str(site)} if site else {})}
    return subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, env=env)


def commit(repo: Path, code: str) -> None:
    (repo / "mine.py").write_text(code)
    run("git", "add", ".", cwd=repo)
    done = run("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "more", cwd=repo)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three revisions: quick, half as slow again, and one that cannot be imported."""
    folder = tmp_path_factory.mktemp("mine")
    run("git", "init", "-q", ".", cwd=folder)
    (folder / "setup.cfg").write_text(SETUP)
    (folder / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools"]\n')
    for code in (CODE.format(share=0), "raise RuntimeError('half done')", CODE.format(share=0.5)):
        commit(folder, code)
    return folder


@pytest.fixture(scope="module")
def site(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment that has the newest revision installed."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", folder, repo]
    assert run(*pip, cwd=folder).returncode == 0
    return folder


def check(repo: Path, site: Path, revision: str, *more: str) -> subprocess.CompletedProcess[str]:
    words = ["timing", "check", "--against", revision, "--methods", "mine", "--batches", "2", *more]
    return run(sys.executable, "-m", "tta_bench.cli.main", *words, cwd=repo, site=site)


@pytest.mark.slow
def test_a_slower_revision_is_caught(repo: Path, site: Path) -> None:
    done = check(repo, site, "HEAD~2", "--markdown", "comment.md")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "mine: slower by more than 5 %" in done.stdout
    assert "as committed, against HEAD~2" in done.stdout
    assert "❌ mine: slower" in (repo / "comment.md").read_text()
    assert run("git", "worktree", "list", cwd=repo).stdout.count("\n") == 1, "the worktree is gone again"


@pytest.mark.slow
def test_the_checkout_is_timed_not_the_installed_package(repo: Path, site: Path) -> None:
    (repo / "mine.py").write_text(
        CODE.format(share=0).replace("self.model(batch)", "self.model(batch) + self.model(batch)")
    )
    done = check(repo, site, "HEAD", "--exact-only")
    run("git", "checkout", "-q", "mine.py", cwd=repo)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "sample-forwards 1 → 2" in done.stdout
    assert "with its uncommitted changes" in done.stdout


@pytest.mark.slow
def test_the_same_revision_raises_no_alarm(repo: Path, site: Path) -> None:
    """With a relative path to weights, too: the two revisions run in another folder."""
    embedded = resources.files("tta_bench.models.checkpoints") / "digits_vit.safetensors"
    (repo / "own.safetensors").write_bytes(embedded.read_bytes())
    done = check(repo, site, "HEAD", "--budget", "20s", "--model", "own.safetensors")
    assert done.returncode in (0, 3), done.stdout + done.stderr


@pytest.mark.slow
def test_a_revision_that_does_not_work_is_one_line(repo: Path, site: Path) -> None:
    done = check(repo, site, "HEAD~1")
    assert done.returncode == 2
    assert "revision HEAD~1: method 'mine' of mine cannot be imported" in done.stderr
    assert "half done" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_revision_older_than_timing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old" / "tta_bench").mkdir(parents=True)
    (tmp_path / "old" / "tta_bench" / "__init__.py").touch()
    child = ChildSide(tmp_path / "workload.pt", tmp_path / "old", dict(os.environ), "revision v0")
    try:
        with pytest.raises(
            UserError, match=r"revision v0 cannot be timed: it is older than `tta-bench timing` \(ImportError"
        ):
            child.counts("tent")
    finally:
        child.close()


@pytest.mark.slow
def test_a_method_missing_from_the_other_revision_is_new(repo: Path, site: Path) -> None:
    commit(repo, CODE.format(share=0))
    (repo / "setup.cfg").write_text(SETUP + "    second = mine:Mine\n")
    (repo / "mine.py").write_text(CODE.format(share=0) + "\n")
    done = run(
        *(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--upgrade"),
        *("--target", site, repo),
        cwd=site,
    )
    assert done.returncode == 0, done.stderr
    words = ["timing", "check", "--against", "HEAD", "--methods", "second", "--batches", "1", "--exact-only"]
    done = run(sys.executable, "-m", "tta_bench.cli.main", *words, cwd=repo, site=site)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "second: is new: the other revision does not have it" in done.stdout
