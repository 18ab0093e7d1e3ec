"""Folders that figures are drawn from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.folders import make_inspection, make_sweep


@pytest.fixture
def sweep_folder(tmp_path: Path) -> Path:
    """A sweep's folder."""
    return make_sweep(tmp_path / "sweep")


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """An inspection's folder."""
    return make_inspection(tmp_path / "seen")
