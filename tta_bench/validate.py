"""Turns plain YAML or JSON content into frozen dataclasses; what does not fit is one line that names its place.

A dataclass is its own schema: its fields are the keys, their annotations what is expected, with limits as in
`Annotated[int, Meta(ge=1)]`. `Meta(title=…)` replaces the words for what is expected, `Meta(description=…)` is what a
key is for. A `__post_init__` that raises ValueError has the last word.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

from tta_bench.errors import UserError, did_you_mean

T = TypeVar("T")
PLAIN = {float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "none"}
LIMITS = (("ge", "of at least"), ("gt", "above"), ("le", "of at most"), ("lt", "below"))
LONGEST = 60  # characters of a wrong value that are shown


@dataclass(frozen=True)
class Key:
    """One key of a schema, in words."""

    name: str
    expected: str
    required: bool
    default: Any
    about: str


def read(cls: type[T], content: object, where: str, *, also: tuple[str, ...] = ()) -> T:
    """`content` as a `cls`; unknown keys, missing keys (all of them) and wrong values are a UserError.

    `also` are keys that the caller has handled, for the list of known ones.
    """
    _refuse_odd_keys(cls, content, where, also)
    try:
        return msgspec.convert(content, cls)
    except msgspec.ValidationError as error:
        place, hint, wrong = _culprit(cls, content, where)
        if _is_schema(hint) and isinstance(wrong, Mapping):  # each value fits, but __post_init__ refuses them together
            raise UserError(f"{place}: {error.__cause__ or error}") from error
        raise UserError(f"{place}: expected {words(hint)}, got {shown(wrong)}") from error


def describe(cls: type) -> list[Key]:
    """The keys that `read` takes for a dataclass, in their order."""
    return [
        Key(f.name, words(_hints(cls)[f.name]), _is_required(f), f.default, _noted(_hints(cls)[f.name], "description"))
        for f in fields(cls)
        if f.init
    ]


def words(hint: Any) -> str:
    """What an annotation expects, as a reader of errors would say it."""
    hint, meta = _bare(hint)
    if title := _noted(meta, "title"):
        return title
    origin = typing.get_origin(hint)
    if _is_union(hint):
        return " or ".join(words(part) for part in typing.get_args(hint))
    if origin is Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(hint))
    if _is_schema(hint) or (origin or hint) is dict:
        return "keys and values"
    if (origin or hint) in (list, tuple):
        return "a list" + _length(hint, meta)
    limits = [f"{word} {getattr(meta, name)}" for name, word in LIMITS if getattr(meta, name, None) is not None]
    return " ".join([PLAIN.get(hint, "any value"), " and ".join(limits)]).strip()


def shown(wrong: object) -> str:
    """A wrong value on one short line, whatever it is."""
    try:
        text = repr(wrong)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list that holds itself
        return f"a {type(wrong).__name__} too large to show"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _refuse_odd_keys(hint: Any, content: object, where: str, also: tuple[str, ...] = ()) -> None:
    """Refuse unknown keys, which msgspec ignores, and missing keys, of which it names the first alone."""
    if not _holds_dataclass(hint):
        return
    hint, _ = _bare(hint)
    if _is_schema(hint) and isinstance(content, Mapping):
        known = _hints(hint)
        for key in content:
            if key not in known:
                raise UserError(f"{where}: unknown key {shown(key)}{did_you_mean(str(key), {*known, *also})}")
        missing = [f"'{f.name}'" for f in fields(hint) if _is_required(f) and f.name not in content]
        if missing:
            raise UserError(f"{where}: missing key{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    for inner, entry, place in _parts(hint, content, where):
        _refuse_odd_keys(inner, entry, place)


def _culprit(hint: Any, content: object, where: str) -> tuple[str, Any, object]:
    """The innermost value that does not fit: its place, what is expected there, and the value."""
    for inner, entry, place in _parts(hint, content, where):
        try:
            msgspec.convert(entry, inner)
        except msgspec.ValidationError:
            return _culprit(inner, entry, place)
    return where, hint, content


def _parts(hint: Any, content: object, where: str) -> Iterator[tuple[Any, object, str]]:
    """What a value holds: what is expected of each entry, the entry, and its place."""
    hint, _ = _bare(hint)
    arguments = typing.get_args(hint)
    if _is_union(hint):
        held = [part for part in arguments if typing.get_origin(part) or _is_schema(part)]
        if isinstance(content, (Mapping, list, tuple)) and len(held) == 1:
            yield held[0], content, where
    elif _is_schema(hint) and isinstance(content, Mapping):
        yield from ((_hints(hint)[key], entry, f"{where}: {key}") for key, entry in content.items())
    elif typing.get_origin(hint) is dict and isinstance(content, Mapping):
        for key, entry in content.items():
            yield arguments[0], key, f"{where}: key {shown(key)}"
            yield arguments[1], entry, f"{where}: {key}"
    elif typing.get_origin(hint) in (list, tuple) and isinstance(content, (list, tuple)):
        inner = arguments if _is_fixed(hint) else arguments[:1] * len(content)
        yield from ((i, entry, f"{where}: entry {n}") for n, (i, entry) in enumerate(zip(inner, content), 1))  # noqa: B905


@cache
def _hints(cls: Any) -> dict[str, Any]:
    found = typing.get_type_hints(cls, include_extras=True)
    return {f.name: found[f.name] for f in fields(cls) if f.init}


@cache
def _holds_dataclass(hint: Any) -> bool:
    return _is_schema(hint) or any(_holds_dataclass(part) for part in typing.get_args(hint) if part is not ...)


def _is_required(field: Any) -> bool:
    return field.init and field.default is MISSING and field.default_factory is MISSING


def _is_schema(hint: Any) -> bool:
    return is_dataclass(_bare(hint)[0])


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _is_fixed(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple and typing.get_args(hint)[1:] != (...,)


def _bare(hint: Any) -> tuple[Any, msgspec.Meta | None]:
    """An annotation without `Annotated`, and the first of its limits."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint, None
    inner, *more = typing.get_args(hint)
    return inner, next((meta for meta in more if isinstance(meta, msgspec.Meta)), None)


def _noted(hint: Any, what: Literal["title", "description"]) -> str:
    meta = hint if isinstance(hint, msgspec.Meta) else _bare(hint)[1]
    return getattr(meta, what, None) or ""


def _length(hint: Any, meta: msgspec.Meta | None) -> str:
    if _is_fixed(hint):
        return f" of {len(typing.get_args(hint))} entries"
    least = getattr(meta, "min_length", None)
    return "" if not least else " with at least one entry" if least == 1 else f" with at least {least} entries"
