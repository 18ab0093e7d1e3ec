"""A method's settings: read from its constructor, checked by their annotations, given as `--set sar.lr=0.01`."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tta_bench.checked import validate
from tta_bench.errors import UserError

if TYPE_CHECKING:
    from tta_bench.method import Method

Settings = dict[str, Any]
GIVEN_BY_HARNESS = frozenset({"num_classes", "batch_size"})


def defaults(cls: type[Method]) -> Settings:
    """A method's settings and their defaults: its constructor's keyword-only arguments."""
    return {key.name: key.default for key in validate.parameters(cls, GIVEN_BY_HARNESS)}


def resolve(cls: type[Method], given: Mapping[str, Any], seed: int) -> Settings:
    """All settings with their values; a `seed` setting that is not given takes the stream's seed."""
    resolved = {**defaults(cls), **given}
    if "seed" in resolved and "seed" not in given:
        resolved["seed"] = seed
    return storable(f"method '{cls.__name__}'", resolved)


def storable(owner: str, values: Mapping[str, Any]) -> Settings:
    """Settings as a record holds them; UserError for a value that JSON has no word for, such as infinity."""
    found = plain(values)
    for key, value in found.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{owner}: {key} is {value!r}, which a record cannot hold: expected finite numbers, text or lists"
            ) from error
    return found


def plain(values: Mapping[str, Any]) -> Settings:
    """Settings as JSON returns them, so that a record read from disk has its cell's key."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def check(name: str, cls: type[Method], given: Mapping[str, Any]) -> None:
    """Refuse settings that the method does not have, and values of the wrong type."""
    validate.arguments(cls, given, f"method '{name}'", "setting", GIVEN_BY_HARNESS)


def parse(assignments: Iterable[str]) -> dict[str, Settings]:
    """Turn `["sar.lr=0.01", ...]` into `{"sar": {"lr": 0.01}}`."""
    parsed: dict[str, Settings] = {}
    for text in assignments:
        target, equals, word = text.partition("=")
        method, dot, key = target.strip().rpartition(".")
        if not (equals and dot and method and key):
            raise UserError(f"--set {text}: expected METHOD.SETTING=VALUE, as in --set METHOD.lr=0.01")
        parsed.setdefault(method, {})[key] = value(word.strip())
    return parsed


def value(text: str) -> Any:
    """Parse a value from the command line: a number, true, false, none, a list, or text."""
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
