"""Compares two revisions of the current repository side by side, each built from a git worktree."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tta_bench.errors import UserError
from tta_bench.timing.compare import Limits, Result, compare_sides
from tta_bench.timing.sides import ChildSide, save
from tta_bench.timing.workload import Bench


def check_against(revision: str, prepared: Bench, limits: Limits) -> Result:
    """Compare the checkout in the current folder, including uncommitted changes, with another revision."""
    top, commit = find(revision)
    changed = _git("stash", "create").strip()  # a commit of the changes to tracked files; changes nothing
    with tempfile.TemporaryDirectory(prefix="tta-bench-timing-") as made:
        folder = Path(made)
        for name, which, what in (("old", commit, revision), ("new", changed or "HEAD", "this checkout")):
            limits.show(f"building {what}")
            with _worktree(which, folder / f"{name}-tree") as tree:
                _install(tree, folder / name, what)
        save(prepared.workload, folder / "workload.pt")
        environment = {**os.environ, "OMP_NUM_THREADS": str(prepared.workload.threads)}
        old = ChildSide(folder / "workload.pt", folder / "old", environment, f"revision {revision}".replace("/", "-"))
        new = ChildSide(folder / "workload.pt", folder / "new", environment, "this checkout")
        try:
            result = compare_sides(old, new, prepared, limits)
        finally:
            old.close()
            new.close()
    state = "with its uncommitted changes" if changed else "as committed"
    result.notes.insert(0, f"This checkout of {top.name}, {state}, against {revision} ({commit[:12]}), side by side.")
    return result


def find(revision: str) -> tuple[Path, str]:
    """The repository of the current folder, and the commit of a revision."""
    return Path(_git("rev-parse", "--show-toplevel").strip()), _commit(revision)


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True)
    except OSError as error:
        raise UserError(f"--against needs git: {error}") from error
    if done.returncode:
        raise UserError(f"--against: git {words[0]}: {_last_line(done.stderr)}")
    return done.stdout


def _commit(revision: str) -> str:
    try:
        return _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
    except UserError as error:
        raise UserError(f"--against {revision}: no such revision in this repository (is it fetched?)") from error


@contextmanager
def _worktree(commit: str, folder: Path) -> Iterator[Path]:
    """A worktree of another revision, removed afterwards."""
    _git("worktree", "add", "--detach", "--quiet", str(folder), commit)
    try:
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], capture_output=True)


def _install(tree: Path, packages: Path, revision: str) -> None:
    """Install a revision's packages and entry points into their own folder; dependencies are shared."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-build-isolation", "--target", str(packages)]
    done = subprocess.run([*pip, *alone, str(tree)], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"--against: {revision} cannot be installed: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]
