"""Untrusted content: a mistake is one line with its place, and no text crashes the process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from tta_bench.checked import parse, validate
from tta_bench.errors import UserError

Count = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True)
class Inner:
    share: Annotated[float, Meta(gt=0, le=1)]
    note: str = ""


@dataclass(frozen=True)
class Outer:
    name: Annotated[str, Meta(pattern=r"^\w+$", title="a name of letters", description="What it is called.")]
    count: Count
    parts: Annotated[tuple[str, ...], Meta(min_length=1)] = ("a",)
    size: tuple[float, float] = (1.0, 1.0)
    kind: Literal["big", "small"] = "big"
    inner: Inner | None = None
    table: dict[str, Inner] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    limit: Count | None = None

    def __post_init__(self) -> None:
        if self.count > 1000 and self.kind == "small":
            raise ValueError("count: a small one has at most 1000")


GOOD: dict[str, Any] = {"name": "n", "count": 2}


def test_content_becomes_the_dataclass() -> None:
    found = validate.read(Outer, {**GOOD, "size": [1, 2.5], "table": {"x": {"share": 1}}, "parts": ["b"]}, "f")
    assert found == Outer("n", 2, ("b",), (1.0, 2.5), table={"x": Inner(1.0)})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cuont": 3}, "f: unknown key 'cuont'; did you mean 'count'? (known: count, "),
        ({"count": "x"}, "f: count: expected a whole number of at least 1, got 'x'"),
        ({"count": 0}, "f: count: expected a whole number of at least 1, got 0"),
        ({"count": True}, "f: count: expected a whole number of at least 1, got True"),
        ({"count": 2.0}, "f: count: expected a whole number of at least 1, got 2.0"),
        ({"name": "a b"}, "f: name: expected a name of letters, got 'a b'"),
        ({"parts": "ab"}, "f: parts: expected a list with at least one entry, got 'ab'"),
        ({"parts": []}, "f: parts: expected a list with at least one entry, got []"),
        ({"parts": ["a", 3]}, "f: parts: entry 2: expected text, got 3"),
        ({"size": [1]}, "f: size: expected a list of 2 entries, got [1]"),
        ({"size": [1, None]}, "f: size: entry 2: expected a number, got None"),
        ({"kind": "huge"}, "f: kind: expected 'big' or 'small', got 'huge'"),
        ({"inner": 3}, "f: inner: expected keys and values or none, got 3"),
        ({"inner": {}}, "f: inner: missing key 'share'"),
        ({"inner": {"share": 2}}, "f: inner: share: expected a number above 0 and of at most 1, got 2"),
        ({"inner": {"share": float("nan")}}, "f: inner: share: expected a number above 0 and of at most 1, got nan"),
        ({"table": {"x": {"share": 1, "notes": ""}}}, "f: table: x: unknown key 'notes'; did you mean 'note'?"),
        ({"table": [1]}, "f: table: expected keys and values, got [1]"),
        ({"data": {3: 4}}, "f: data: key 3: expected text, got 3"),
        ({"limit": "x"}, "f: limit: expected a whole number of at least 1 or none, got 'x'"),
        ({"count": 2000, "kind": "small"}, "f: count: a small one has at most 1000"),
        ({"about": "x" * 1000}, "f: unknown key 'about'"),
        ({"count": "x" * 1000}, "f: count: expected a whole number of at least 1, got '" + "x" * 59 + "…"),
    ],
)
def test_mistakes_are_one_line_with_their_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        validate.read(Outer, {**GOOD, **change}, "f")
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


def test_all_missing_keys_are_named_at_once() -> None:
    with pytest.raises(UserError, match=r"^f: missing keys 'name', 'count'$"):
        validate.read(Outer, {}, "f")


@pytest.mark.parametrize("content", [None, [], "text", 3])
def test_content_without_keys_is_refused(content: object) -> None:
    with pytest.raises(UserError, match="^f: expected keys and values, got "):
        validate.read(Outer, content, "f")


def test_describe_lists_what_read_accepts() -> None:
    name, count, *_, limit = validate.describe(Outer)
    assert (name.name, name.expected, name.required, name.about) == (
        "name",
        "a name of letters",
        True,
        "What it is called.",
    )
    assert (count.expected, count.required) == ("a whole number of at least 1", True)
    assert (limit.expected, limit.required, limit.default) == ("a whole number of at least 1 or none", False, None)


def test_yaml_reads_as_its_author_means_it() -> None:
    text = "a: 1e-3\nb: 2024-01-01\nbase: &base {x: 1}\nc: {<<: *base, y: [*base, *base]}"
    found = {"a": 0.001, "b": "2024-01-01", "base": {"x": 1}, "c": {"x": 1, "y": [{"x": 1}, {"x": 1}]}}
    assert parse.from_yaml(text, "f") == found


BILLION = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 10))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "line 1: more than 50 levels"),
        ("a: " + "{a: " * 100_000, "line 1: more than 50 levels"),
        (BILLION, "line 6: more than 100,000 values"),
        (MERGES, "line 6: more than 100,000 values"),
        ("- x\n" * 100_001, "line 100000: more than 100,000 values"),
        ("&a [*a]", "line 1: alias '*a' has no anchor before it"),
        ("a: " + "9" * 5000, "Exceeds the limit (4300 digits)"),
        ("a: !!python/object/apply:os.system [ls]", "line 1: tag "),
        ("a: !!binary aGk=", "line 1: tag "),
        ("a: 1\na: 2", "line 2: key 'a' appears twice"),
        ("a: 1\n3: 2", "line 2: expected text as a key"),
        ("? [a, b]\n: 2", "line 1: expected text as a key"),
        ("a: \x00", "unacceptable character"),
        ("a: [", "while parsing a flow node"),
        ("--- a\n--- b", "expected a single document"),
    ],
)
def test_hostile_yaml_is_one_line(text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse.from_yaml(text, "f")
    assert str(error.value).startswith(f"f: invalid YAML: {said}")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "too many levels"),
        ("[" * 60 + "]" * 60, "more than 50 levels"),
        ('{"a": ' + "9" * 5000 + "}", "Exceeds the limit (4300 digits)"),
        ("{", "Expecting property name"),
        (b"\xff\xfe\xfd", "'utf-16-le' codec"),
        ("", "Expecting value"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": {"top1": 0.9, "b": 1, "top1": 0.1}}', "key 'top1' appears twice"),
    ],
)
def test_hostile_json_is_one_line(text: str | bytes, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse.from_json(text, "f")
    assert str(error.value).startswith(f"f: invalid JSON: {said}")
    assert "\n" not in str(error.value)


def test_values_that_cannot_be_shown_are_still_refused() -> None:
    with pytest.raises(
        UserError, match="f: count: expected a whole number of at least 1, got a list too large to show"
    ):
        validate.read(Outer, {**GOOD, "count": [10**5000]}, "f")
