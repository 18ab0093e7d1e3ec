"""A method's settings: read from its constructor, checked by their annotations, given as `--set sar.lr=0.01`."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tta_bench.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from tta_bench.method import Method

Settings = dict[str, Any]
GIVEN_BY_HARNESS = frozenset({"num_classes", "batch_size"})


def defaults(cls: type[Method]) -> Settings:
    """A method's settings and their defaults: its constructor's keyword-only arguments."""
    return {
        p.name: p.default
        for p in inspect.signature(cls).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.name not in GIVEN_BY_HARNESS
    }


def resolve(cls: type[Method], given: Mapping[str, Any], seed: int) -> Settings:
    """Every setting with its value; a setting `seed` that nobody chose follows the seed of the stream."""
    resolved = {**defaults(cls), **given}
    if "seed" in resolved and "seed" not in given:
        resolved["seed"] = seed
    return plain(resolved)


def plain(values: Mapping[str, Any]) -> Settings:
    """Settings as JSON gives them back, so that a record read from disk has the key of its cell."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def check(name: str, cls: type[Method], given: Mapping[str, Any]) -> None:
    """Refuse settings that the method does not have, and values of the wrong type."""
    known = defaults(cls)
    try:
        hints = typing.get_type_hints(cls.__init__)
    except Exception:  # annotations that only a type checker can resolve: names are still checked
        hints = {}
    for key, found in given.items():
        if key not in known:
            raise UserError(f"method '{name}' has no setting '{key}'{did_you_mean(key, known)}")
        hint = hints.get(key, Any)
        if not _fits(found, hint):
            raise UserError(f"method '{name}': setting '{key}' is {found!r}, expected {_words(hint)}")


def parse(assignments: Iterable[str]) -> dict[str, Settings]:
    """Turn `["sar.lr=0.01", ...]` into `{"sar": {"lr": 0.01}}`."""
    parsed: dict[str, Settings] = {}
    for text in assignments:
        target, equals, word = text.partition("=")
        method, dot, key = target.strip().rpartition(".")
        if not (equals and dot and method and key):
            raise UserError(f"--set {text}: expected METHOD.SETTING=VALUE, as in --set sar.lr=0.01")
        parsed.setdefault(method, {})[key] = value(word.strip())
    return parsed


def value(text: str) -> Any:
    """What a word on the command line stands for: a number, true, false, none, a list, or itself."""
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value can stand for an annotation; annotations that are not plain data are let through."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if origin is Literal:
        return value in typing.get_args(hint)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (bool, str, type(None)):
        return isinstance(value, hint)
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return isinstance(value, (list, tuple))
    return True


def _words(hint: Any) -> str:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_words(part) for part in typing.get_args(hint))
    if origin is Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(hint))
    plain = {float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "none"}
    return plain.get(hint, "a list")
