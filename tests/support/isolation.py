"""Keeps tests and their user apart: a clean environment, and a check that the user's files stay as they were."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_cache_path

from tests.support.checkout import ROOT

KEPT = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "USER", "LOGNAME", "GOMP_SPINCOUNT", "PYTEST_VERSION")
KEPT_FAMILIES = ("PYTEST_XDIST", "PIP_", "SSL_", "http_", "https_", "no_", "HTTP_", "HTTPS_", "NO_PROXY", "PYENV_")
# What tools write into a checkout, and git ignores.
OF_TOOLS = {".git", ".venv", "build", "dist", "__pycache__", ".benchmarks", ".import_linter_cache", ".mypy_cache"}
OF_TOOLS |= {".pytest_cache", ".ruff_cache"}
RUNS = ROOT / "results" / "runs"


def clean_environment(given: Mapping[str, str], home: Path) -> dict[str, str]:
    """What tests and their subprocesses see, whatever the user has set: few variables, and a home of their own."""
    kept = {name: value for name, value in given.items() if name in KEPT or name.startswith(KEPT_FAMILIES)}
    return {
        **kept,
        "HOME": str(home),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(home / "hypothesis"),
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "TTA_BENCH_IN_PROCESS": "1",  # a worker takes seconds to start; tests/isolation/test_pool.py has its own
        "TZ": "UTC",
    }


class Session:
    """The tests' temporary home, and which files the user had before the first test."""

    def __init__(self) -> None:
        self.watched = watched(os.environ)
        self.before = self.seen()
        self.home = Path(tempfile.mkdtemp(prefix="tta-bench-home-")).resolve()
        enter(clean_environment(os.environ, self.home))

    def seen(self) -> set[Path]:
        return set().union(*(entries(folder, depth) for folder, depth in self.watched.items()))

    def end(self) -> list[str]:
        """Removes the home; returns what has appeared or vanished outside of it. Git tells which files have changed."""
        shutil.rmtree(self.home, ignore_errors=True)
        return sorted(map(str, self.before ^ self.seen()))


def enter(environment: Mapping[str, str]) -> None:
    """Makes this the environment of this process."""
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


def watched(given: Mapping[str, str]) -> dict[Path, int]:
    """The checkout, and the folders in which a user's data and downloaded weights are; how deep each is looked into."""
    caches = Path(given.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    own = [user_cache_path("tta-bench", appauthor=False), caches / "huggingface", caches / "torch"]
    named = [Path(given[name]) for name in ("TTA_BENCH_DATA", "HF_HOME", "TORCH_HOME") if given.get(name)]
    return {**dict.fromkeys([*own, *named], 2), ROOT: sys.maxsize}


def entries(folder: Path, depth: int) -> set[Path]:
    """What is below a folder. Deeper than `depth`, and in a run's folder, a user may be at work while tests run."""
    found: set[Path] = set()
    try:
        inside = [path for path in folder.iterdir() if path.name not in OF_TOOLS]
    except OSError:  # there is no such folder, or it is not ours to read
        return found
    for path in inside:
        if path.is_symlink() or not path.is_dir() or depth == 1 or path.parent == RUNS:
            found.add(path)
        else:
            found |= entries(path, depth - 1)
    return found
