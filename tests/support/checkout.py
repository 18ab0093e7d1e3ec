"""Where the checkout is, and copies of it that may be written to."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")


def copied(folder: Path, to: Path) -> Path:
    """A copy of a folder of the checkout without what git ignores. The checkout itself may be read-only."""
    shutil.copytree(folder, to, ignore=_left_out)
    for path in (to, *to.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    return to


def _left_out(folder: str, names: list[str]) -> set[str]:
    """tta_bench/runs is code, results/runs is not."""
    return {*LEFT_OUT(folder, names), *(["runs"] if Path(folder).name == "results" else [])}
