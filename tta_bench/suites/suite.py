"""Suites: tasks × model × batch size × methods' settings, one YAML each, checked with readable errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from tta_bench.data.families import CORRUPTIONS
from tta_bench.errors import UserError, did_you_mean

DEFAULT = "digits-c-5"


@dataclass(frozen=True)
class Suite:
    """What is compared on what. Everything here can change a result, so cells hash it."""

    name: str
    about: str
    data: dict[str, Any]
    tasks: tuple[str, ...]
    model: str
    batch_size: int
    methods: dict[str, dict[str, Any]]  # settings for this suite; the order is the order of the rows
    version: int = 1
    seeds: tuple[int, ...] = (0,)
    paper: str = ""  # the table of the DPAL paper that this suite answers, by its name in results/paper
    notes: str = field(default="", compare=False)  # how settings were found; changes no result


def names() -> list[str]:
    """The suites that ship with tta-bench."""
    return sorted(_library())


def load(name_or_path: str) -> Suite:
    """Load a suite by its name, or from a YAML file of one's own."""
    if not name_or_path.endswith((".yaml", ".yml")):
        if name_or_path not in _library():
            raise UserError(f"unknown suite '{name_or_path}'{did_you_mean(name_or_path, names())}")
        return _library()[name_or_path]
    path = Path(name_or_path)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"suite file {path} cannot be read: {error}") from error
    found = parse(text, path.name)
    if len(found) != 1:
        raise UserError(
            f"{path.name}: describes {len(found)} suites ({', '.join(s.name for s in found)}), expected one"
        )
    return found[0]


def parse(text: str, where: str) -> list[Suite]:
    """Read suites from YAML text; `where` is the file's name for error messages.

    A file with `for_each: {severity: [1, 2]}` describes one suite per value, with `{severity}` filled in.
    """
    try:
        raw = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise UserError(f"{where}: no valid YAML: {' '.join(str(error).split())}") from error
    raw = _mapping(raw, where)
    loop = _mapping(raw.pop("for_each", {}), f"{where}: for_each")
    if len(loop) > 1:
        raise UserError(f"{where}: for_each: expected one name with its values, got {', '.join(loop)}")
    if not loop:
        return [_suite(raw, where)]
    ((word, values),) = loop.items()
    values = _list(values, f"{where}: for_each: {word}", lambda value, _: value)
    return [_suite(_fill(raw, word, value), where) for value in values]


@cache
def _library() -> dict[str, Suite]:
    files = (f for f in resources.files("tta_bench.suites").iterdir() if f.name.endswith(".yaml"))
    suites = [found for file in files for found in parse(file.read_text(), file.name)]
    return {found.name: found for found in suites}


def _suite(raw: Mapping[str, Any], where: str) -> Suite:
    known = {f.name: f for f in fields(Suite)}
    for key in raw:
        if key not in known:
            raise UserError(f"{where}: unknown key '{key}'{did_you_mean(key, {*known, 'for_each'})}")
    for key, f in known.items():
        if f.default is MISSING and key not in raw:
            raise UserError(f"{where}: missing key '{key}'")
    return Suite(**{key: _CHECKS[key](value, f"{where}: {key}") for key, value in raw.items()})


def _fill(node: Any, word: str, value: Any) -> Any:
    """Put a value in place of `{word}`; a text that is nothing else becomes the value itself."""
    if isinstance(node, str):
        slot = "{" + word + "}"
        return value if node == slot else node.replace(slot, str(value))
    if isinstance(node, Mapping):
        return {key: _fill(entry, word, value) for key, entry in node.items()}
    if isinstance(node, list):
        return [_fill(entry, word, value) for entry in node]
    return node


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{where}: expected text, got {value!r}")
    return value


def _name(value: Any, where: str) -> str:
    if not (isinstance(value, str) and re.fullmatch(r"[\w.-]+", value)):
        raise UserError(f"{where}: expected a name of letters, digits, '-', '_' and '.', got {value!r}")
    return value


def _whole(value: Any, where: str, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{where}: expected a whole number of at least {least}, got {value!r}")
    return value


def _list(value: Any, where: str, item: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    if not isinstance(value, list) or not value:
        raise UserError(f"{where}: expected a list with at least one entry, got {value!r}")
    items = tuple(item(entry, where) for entry in value)
    twice = next((entry for i, entry in enumerate(items) if entry in items[:i]), None)
    if twice is not None:
        raise UserError(f"{where}: '{twice}' is listed twice")
    return items


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UserError(f"{where}: expected keys and values, got {value!r}")
    return dict(value)


def _methods(value: Any, where: str) -> dict[str, dict[str, Any]]:
    found = _mapping(value, where)
    if not found:
        raise UserError(f"{where}: expected at least one method")
    return {name: _mapping(given or {}, f"{where}: {name}") for name, given in found.items()}


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "name": _name,
    "about": _text,
    "data": _mapping,
    "tasks": lambda value, where: _list(list(CORRUPTIONS) if value == "corruptions" else value, where, _name),
    "model": _text,
    "batch_size": lambda value, where: _whole(value, where, least=1),
    "methods": _methods,
    "version": lambda value, where: _whole(value, where, least=1),
    "seeds": lambda value, where: _list(value, where, _whole),
    "paper": _text,
    "notes": _text,
}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the quick one where it was built
    """Safe YAML that refuses repeated keys and reads 1e-3 as a number, which YAML 1.1 takes for text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"key '{key}' appears twice (line {node.start_mark.line + 1} on)")
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)
