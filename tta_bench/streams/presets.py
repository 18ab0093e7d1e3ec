"""Published streams by name, from presets.yaml: compositions, and orders of the standard corruptions."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _content() -> dict[str, Any]:
    from tta_bench.checked.parse import from_yaml

    found: dict[str, Any] = from_yaml((files(__package__) / "presets.yaml").read_text(), "presets.yaml")
    return found


def presets() -> dict[str, str]:
    """Names and the compositions that they stand for."""
    found: dict[str, str] = _content()["presets"]
    return found


def orders() -> dict[str, list[int]]:
    """Orders of tasks by name, as numbers of the standard corruptions."""
    found: dict[str, list[int]] = _content()["orders"]
    return found
