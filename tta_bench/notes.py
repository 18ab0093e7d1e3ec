"""Notes: what a reader of a table must know, and how loudly it is said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How a note is meant; the value is what it begins with in text."""

    INFO = ""
    LEFT_OUT = "Left out, not comparable: "
    WARNING = "WARNING "
    FAILED = "FAILED "
    NOT_REPORTABLE = "NOT REPORTABLE: "


@dataclass(frozen=True)
class Note:
    level: Level
    text: str
    mark: str = ""  # by which entries of a table refer to it

    def __str__(self) -> str:
        return f"{self.level.value}{self.text}"

    @property
    def is_loud(self) -> bool:
        """Whether it must not be overlooked."""
        return self.level not in (Level.INFO, Level.LEFT_OUT)


def info(text: str) -> Note:
    return Note(Level.INFO, text)


def warning(text: str) -> Note:
    return Note(Level.WARNING, text)


def read(text: str) -> Note:
    """A note from a run folder, where it is stored as its text."""
    level = next((level for level in Level if level.value and text.startswith(level.value)), Level.INFO)
    return Note(level, text.removeprefix(level.value))
