"""Converts plain YAML or JSON content to frozen dataclasses; an error is one line that names its place.

A dataclass is its own schema: its fields are the keys, and their annotations say what is expected, with limits as in
`Annotated[int, Meta(ge=1)]`. `Meta(title=…)` sets the words for what is expected, `Meta(description=…)` documents the
key. `__post_init__` may raise ValueError for values that do not go together.
"""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

from tta_bench.errors import UserError, did_you_mean

T = TypeVar("T")
PLAIN = {float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "none"}
LIMITS = (("ge", "of at least"), ("gt", "above"), ("le", "of at most"), ("lt", "below"))
LONGEST = 60  # characters shown of a wrong value


@dataclass(frozen=True)
class Key:
    """The description of one key of a schema."""

    name: str
    expected: str
    required: bool
    default: Any
    about: str


def read(cls: type[T], content: object, where: str, *, also: tuple[str, ...] = ()) -> T:
    """Convert `content` to a `cls`; unknown keys, missing keys (all of them) and wrong values raise UserError.

    `also` are keys that the caller handles; errors list them as known.
    """
    _refuse_bad_keys(cls, content, where, also)
    try:
        return msgspec.convert(content, cls)
    except msgspec.ValidationError as error:
        place, hint, wrong = _culprit(cls, content, where)
        if _is_schema(hint) and isinstance(wrong, Mapping):  # each value fits, but __post_init__ refuses them together
            raise UserError(f"{place}: {error.__cause__ or error}") from error
        raise UserError(f"{place}: expected {words(hint)}, got {shown(wrong)}") from error


def parameters(function: Callable[..., Any], exclude: Collection[str]) -> list[Key]:
    """The keyword-only parameters of a function or class: settings of a method, options of a dataset."""
    hints = _annotations(function)
    return [
        Key(
            p.name,
            words(hints.get(p.name, Any)),
            p.default is p.empty,
            p.default,
            _meta(hints.get(p.name, Any), "description"),
        )
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.name not in exclude
    ]


def arguments(
    function: Callable[..., Any], given: Mapping[str, Any], where: str, noun: str, exclude: Collection[str] = ()
) -> dict[str, Any]:
    """Convert keyword arguments by a function's annotations; an unknown or missing `noun` raises UserError.

    `exclude` are parameters that the harness fills in. An annotation that is not plain data, or that only a type
    checker can resolve, accepts everything.
    """
    known = {key.name: key for key in parameters(function, exclude)}
    for name in given:
        if name not in known:
            raise UserError(f"{where} has no {noun} {shown(name)}{did_you_mean(str(name), known)}")
    if missing := [f"'{key.name}'" for key in known.values() if key.required and key.name not in given]:
        raise UserError(f"{where} needs the {noun}{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    hints = _annotations(function)
    return {name: _plain(hints.get(name, Any), value, f"{where}: {name}") for name, value in given.items()}


def describe(cls: type) -> list[Key]:
    """The keys that `read` accepts for a dataclass, in order."""
    hints = _hints(cls)
    return [
        Key(f.name, words(hints[f.name]), _is_required(f), default_of(f), _meta(hints[f.name], "description"))
        for f in fields(cls)
        if f.init
    ]


def json_schema(cls: type) -> dict[str, Any]:
    """The JSON schema of what `read` accepts for a dataclass; it refuses unknown keys, too."""
    # JavaScript's `$` is the end of the text, which Python calls \Z.
    schema: dict[str, Any] = json.loads(json.dumps(msgspec.json.schema(cls)).replace(r"\\Z", "$"))
    for part in schema.get("$defs", {}).values():
        if part.get("type") == "object" and "properties" in part:
            part["additionalProperties"] = False
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def default_of(f: Field[Any]) -> Any:
    """A field's default value; MISSING if it has none."""
    return f.default if f.default_factory is MISSING else f.default_factory()


def words(hint: Any) -> str:
    """What an annotation expects, in the words of an error message."""
    if title := _meta(hint, "title"):
        return title
    hint, metas = _bare(hint)
    origin = typing.get_origin(hint)
    if _is_union(hint):
        return " or ".join(words(part) for part in typing.get_args(hint))
    if origin is Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(hint))
    kind = origin or hint
    if _is_schema(hint) or _is_kind(kind, Mapping):
        return "keys and values" + _length(hint, metas)
    if _is_kind(kind, Iterable) and kind is not str:
        return "a list" + _length(hint, metas)
    limits = [f"{word} {limit}" for name, word in LIMITS if (limit := _first(metas, name)) is not None]
    return " ".join([PLAIN.get(hint, "any value"), " and ".join(limits)]).strip()


def shown(wrong: object) -> str:
    """A wrong value on one short line."""
    try:
        text = repr(wrong)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list that holds itself
        return f"a {type(wrong).__name__} too large to show"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _refuse_bad_keys(hint: Any, content: object, where: str, also: tuple[str, ...] = ()) -> None:
    """Refuse unknown keys, which msgspec ignores, and name all missing keys; msgspec names only the first."""
    if not _holds_dataclass(hint):
        return
    hint, _ = _bare(hint)
    if _is_schema(hint) and isinstance(content, Mapping):
        known = _hints(hint)
        for key in content:
            if key not in known:
                raise UserError(f"{where}: unknown key {shown(key)}{did_you_mean(str(key), {*known, *also})}")
        missing = [f"'{name}'" for name in _required(hint) if name not in content]
        if missing:
            raise UserError(f"{where}: missing key{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
        for key in _nested(hint):
            if key in content:
                _refuse_bad_keys(known[key], content[key], f"{where}: {key}")
        return
    for inner, entry, place in _parts(hint, content, where):
        _refuse_bad_keys(inner, entry, place)


def _culprit(hint: Any, content: object, where: str) -> tuple[str, Any, object]:
    """Find the innermost wrong value: its path, the expected type, and the value."""
    for inner, entry, place in _parts(hint, content, where):
        try:
            msgspec.convert(entry, inner)
        except msgspec.ValidationError:
            return _culprit(inner, entry, place)
    return where, hint, content


def _parts(hint: Any, content: object, where: str) -> Iterator[tuple[Any, object, str]]:
    """The entries of a value: what is expected of each, the entry, and its place."""
    hint, _ = _bare(hint)
    arguments = typing.get_args(hint)
    if _is_union(hint):
        held = [part for part in arguments if typing.get_origin(part) not in (None, Literal) or _is_schema(part)]
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


def _plain(hint: Any, value: Any, where: str) -> Any:
    if isinstance(value, float) and not math.isfinite(value):  # JSON, and with it a record, has neither inf nor nan
        raise UserError(f"{where}: expected {words(hint)}, got {shown(value)}")
    try:
        return read(hint, value, where)
    except TypeError:  # msgspec does not know this kind of annotation
        return value


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    call = getattr(function, "__init__") if isinstance(function, type) else function  # noqa: B009 (mypy)
    try:
        return typing.get_type_hints(call, include_extras=True)
    except Exception:  # third-party annotations may name what only a type checker imports
        return {}


@cache
def _hints(cls: Any) -> dict[str, Any]:
    found = typing.get_type_hints(cls, include_extras=True)
    return {f.name: found[f.name] for f in fields(cls) if f.init}


@cache
def _nested(cls: Any) -> list[str]:
    """The keys of a schema that hold schemas. Asking each key would take a third of the time to read a record."""
    return [name for name, hint in _hints(cls).items() if _holds_dataclass(hint)]


@cache
def _holds_dataclass(hint: Any) -> bool:
    return _is_schema(hint) or any(_holds_dataclass(part) for part in typing.get_args(hint) if part is not ...)


@cache
def _required(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls) if _is_required(f))


def _is_required(field: Any) -> bool:
    return field.init and field.default is MISSING and field.default_factory is MISSING


def _is_schema(hint: Any) -> bool:
    return is_dataclass(_bare(hint)[0])


def _is_kind(kind: Any, parent: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, parent)


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _is_fixed(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple and typing.get_args(hint)[1:] != (...,)


def _bare(hint: Any) -> tuple[Any, list[msgspec.Meta]]:
    """An annotation without `Annotated`, and its limits; nested annotations may have added several."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint, []
    inner, *more = typing.get_args(hint)
    return inner, [meta for meta in more if isinstance(meta, msgspec.Meta)]


def _first(metas: list[msgspec.Meta], name: str) -> Any:
    return next((found for meta in metas if (found := getattr(meta, name)) is not None), None)


def _meta(hint: Any, what: Literal["title", "description"]) -> str:
    return _first(_bare(hint)[1], what) or ""


def _length(hint: Any, metas: list[msgspec.Meta]) -> str:
    if _is_fixed(hint):
        return f" of {len(typing.get_args(hint))} entries"
    least = _first(metas, "min_length")
    return "" if not least else " with at least one entry" if least == 1 else f" with at least {least} entries"
