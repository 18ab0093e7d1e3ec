"""Parses untrusted YAML and JSON into plain content: text, numbers, lists and mappings."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from typing import Any

from tta_bench.errors import UserError

DEEPEST = 50  # levels; libyaml recurses in C and crashes the process at about 50,000
MOST_VALUES = 100_000  # counted with aliases expanded: nine lines of aliases can mean a billion values

# What only numbers beyond 1e308 have, with every digit written as 9; a hook for each number would take longer.
AS_NINES = bytes.maketrans(b"012345678", b"9" * 9)
LARGE_EXPONENT = re.compile(rb"[eE]\+?9{3,}(?![9a-fA-F])")  # and not a part of a hash
MANY_DIGITS = b"9" * 300
HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")  # JSON writes some characters as two halves; one alone is invalid


def from_yaml(text: str, where: str) -> Any:
    """Parse YAML text; `where` names it in errors.

    Keys must be text and unique. 1e-3 is a number (text in YAML 1.1), a date is text, and tags are refused.
    """
    import yaml

    loader = _loader()
    try:
        _refuse_bombs(text, loader)
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{where}: invalid YAML: {_one_line(error)}") from error


def from_json(text: str | bytes, where: str) -> Any:
    """Parse JSON text; `where` names it in errors. Keys must be unique: a reader would see one value, we another."""
    try:
        raw = text if isinstance(text, bytes) else text.encode()
        nines = raw.translate(AS_NINES)
        is_large = MANY_DIGITS in nines or LARGE_EXPONENT.search(nines)
        content = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite if is_large else None,
            object_pairs_hook=_once_each,
        )
        if HALF_A_CHARACTER.search(raw):
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        reason = "too many levels" if isinstance(error, RecursionError) else _one_line(error)
        raise UserError(f"{where}: invalid JSON: {reason}") from error
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return content  # too few brackets to be deep; walking thousands of records takes seconds
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        nested = [node for node in level if isinstance(node, (list, dict))]
        if not nested:
            return content
        level = [child for node in nested for child in (node.values() if isinstance(node, dict) else node)]
    raise UserError(f"{where}: invalid JSON: more than {DEEPEST} levels")


def _finite(text: str) -> float:
    value = float(text)
    if value - value:  # infinite: inf - inf is NaN, which is true
        raise ValueError(f"{text[:30]} is too large")
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"key '{twice[:100]}' appears twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).partition("; use sys.set_int_max_str_digits")[0]


def _refuse_bombs(text: str, loader: Any) -> None:
    """Check the parser's events, which are flat, before anything nested is built."""
    import yaml

    sizes = [0]  # of the open values, each including everything it holds so far
    names: list[str | None] = [None]
    anchors: dict[str, int] = {}
    for event in yaml.parse(text, Loader=loader):
        line = f"line {event.start_mark.line + 1}"
        if getattr(event, "tag", None) is not None:
            raise ValueError(f"{line}: tag {event.tag!r} is not supported")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise ValueError(f"{line}: alias '*{event.anchor}' has no anchor before it")
            sizes[-1] += anchors[event.anchor]
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            sizes.append(1)
            names.append(event.anchor)
        elif isinstance(event, yaml.ScalarEvent):
            sizes[-1] += 1
            if event.anchor:
                anchors[event.anchor] = 1
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            size, name = sizes.pop(), names.pop()
            sizes[-1] += size
            if name:
                anchors[name] = size
        if len(sizes) > DEEPEST:
            raise ValueError(f"{line}: more than {DEEPEST} levels")
        if sizes[-1] > MOST_VALUES:
            raise ValueError(f"{line}: more than {MOST_VALUES:,} values")


@cache
def _loader() -> Any:
    """PyYAML's safe loader with our rules, in C if available. Built on first use: yaml takes 20 ms to import."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                line = f"line {key.start_mark.line + 1}"
                if not isinstance(key, yaml.ScalarNode) or not key.tag.endswith((":str", ":merge")):
                    raise ValueError(f"{line}: expected text as a key (quote it if it looks like a number or a bool)")
                if key.value in seen:
                    raise ValueError(f"{line}: key '{key.value}' appears twice")
                seen.add(key.value)
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":value"))]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    number = re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    return Loader
