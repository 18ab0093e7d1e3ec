"""Notes carry their level as data; text begins with it only where it is written."""

from __future__ import annotations

import pytest

from tta_bench import notes
from tta_bench.notes import Level, Note


@pytest.mark.parametrize("level", Level)
def test_a_stored_note_is_read_back(level: Level) -> None:
    assert notes.read(str(Note(level, "as it is"))) == Note(level, "as it is")


def test_only_what_must_be_read_first_is_loud() -> None:
    assert [level for level in Level if not Note(level, "").is_loud] == [Level.INFO, Level.LEFT_OUT]
