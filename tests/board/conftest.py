"""A board of small suites, and a submission to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import boards
from tests.support.boards import ENTRY, submit, whole_run
from tta_bench.board.submission import Who
from tta_bench.suites import suite as suites
from tta_bench.verify import streams


@pytest.fixture
def small_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs two small suites, and keeps their streams."""
    monkeypatch.setattr(suites, "library", boards.library)
    monkeypatch.setattr(streams, "_expected", boards.expected)


@pytest.fixture(scope="session")
def board_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run of a small suite."""
    return whole_run(tmp_path_factory.mktemp("board") / "run")


@pytest.fixture
def good(small_board: None, board_run: Path, tmp_path: Path) -> Path:
    """A submission that is accepted."""
    return submit(board_run, tmp_path / "incoming" / "mine")


@pytest.fixture
def board(small_board: None, tmp_path: Path) -> Path:
    """A board with an entry of somebody else, whose predictions differ from ours."""
    theirs = whole_run(tmp_path / "theirs", ("source", "tent"))
    entry = replace(ENTRY, who=Who("Bob", "https://example.org/bob"), package="built-in", settings={})
    submit(theirs, tmp_path / "board" / "bobs", entry)
    return tmp_path / "board"
