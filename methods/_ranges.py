"""Refuses settings outside of their range, before a model is asked for anything."""

from __future__ import annotations


def shares(**settings: float) -> None:
    """Each is a share of something: 0 to 1."""
    for name, value in settings.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}, expected 0 to 1")


def not_negative(**settings: float) -> None:
    for name, value in settings.items():
        if value < 0:
            raise ValueError(f"{name} is {value}, expected 0 or more")


def positive(**settings: float) -> None:
    for name, value in settings.items():
        if value <= 0:
            raise ValueError(f"{name} is {value}, expected a number above 0")


def at_least_one(**settings: int) -> None:
    for name, value in settings.items():
        if value < 1:
            raise ValueError(f"{name} is {value}, expected 1 or more")
