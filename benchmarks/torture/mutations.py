"""Spoils files: other bytes, or content that somebody who means harm would write."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

NASTY: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**63,
        -(2**70),
        10**400,
        0.5,
        -0.0,
        1e308,
        1e-320,
        float("nan"),
        float("inf"),
    ),
    *(
        "",
        " ",
        "x",
        "1",
        "../../x",
        "/etc/passwd",
        "..",
        ".",
        "=1+1",
        "@SUM(A1)",
        "\t=1",
        "a\x1b[2Jb",
        "\u202ex",
        "\ud800",
    ),
    *("x" * 5000, "<script>alert(1)</script>", "[bold]", "\\input{x}", "2026-13-45T00:00:00+00:00", "\x00", "é" * 90),
    *([], {}, [[]], [None], [1, "x"], {"": ""}, {"x": {"y": []}}, [0.1] * 50),
)


def mutate_bytes(content: bytes, random: Random) -> bytes:
    """Other bytes: a flipped bit, a cut, an inserted, removed or repeated piece."""
    changed = bytearray(content)
    place, length = random.randrange(len(content)), random.randint(1, 40)
    kind = random.choice(("flip", "flip", "cut", "insert", "remove", "repeat", "zero", "empty"))
    if kind == "flip":
        changed[place] ^= 1 << random.randrange(8)
    elif kind == "cut":
        del changed[place:]
    elif kind == "insert":
        changed[place:place] = random.randbytes(length)
    elif kind == "remove":
        del changed[place : place + length]
    elif kind == "repeat":
        changed[place:place] = changed[place : place + length]
    elif kind == "zero":
        changed[place : place + length] = bytes(length)
    else:
        changed.clear()
    return bytes(changed) if changed != content else content + b"\n"


def mutate_content(content: Any, random: Random) -> str:
    """Replace, remove or add something anywhere in plain content; returns what was done."""
    places = list(_places(content, ""))
    home, key, path = random.choice(places)
    kind = random.choice(("replace", "replace", "replace", "remove", "add", "deep", "huge"))
    if kind == "remove":
        del home[key]
    elif kind == "add" and isinstance(home, dict):
        home[random.choice(("x", "", "__class__", "a.b"))] = copy.deepcopy(random.choice(NASTY))
    elif kind == "deep":
        home[key] = _deep(random.choice((20, 49, 60, 900)))
    elif kind == "huge":
        home[key] = random.choice((10**4000, -(10**4000), 10**18, "9" * 5000, [1] * 20_000))
    else:
        home[key] = copy.deepcopy(random.choice(NASTY))
    return f"{kind} {path}"


def spoiled_json(raw: bytes, random: Random) -> bytes:
    """A JSON file with other bytes, other content, or numbers that Python cannot print."""
    kind = random.choice(("bytes", "content", "content", "digits", "nested", "twice"))
    if kind == "bytes":
        return mutate_bytes(raw, random)
    if kind == "digits":
        return raw.replace(b":", b": " + b"9" * 5000 + b" ,", 1) if random.random() < 0.5 else b"9" * 5000
    if kind == "nested":
        return b"[" * random.choice((40, 60, 5000, 200_000))
    if kind == "twice":
        return raw + raw
    content = json.loads(raw)
    mutate_content(content, random)
    return json.dumps(content).encode()


def mutate_text(text: str, random: Random) -> bytes:
    """A YAML file with other bytes, other lines, nesting, aliases or tags."""
    kind = random.choice(("bytes", "value", "value", "line", "nested", "bomb", "tag", "digits"))
    lines = text.splitlines()
    place = random.randrange(len(lines))
    if kind == "bytes":
        return mutate_bytes(text.encode(), random)
    if kind == "value":
        head, _, _ = lines[place].partition(":")
        nasty = random.choice([value for value in NASTY if value != "\ud800"])
        lines[place] = f"{head}: {json.dumps(nasty, ensure_ascii=False)}"
    elif kind == "line":
        lines[place] = random.choice(("", "- x", "? x", "x", "a: b: c", "\t", "%YAML 9.9", "---", "..."))
    elif kind == "nested":
        lines[place] = "x: " + "[" * random.choice((40, 60, 60_000))
    elif kind == "bomb":
        lines += ["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10))]
    elif kind == "tag":
        lines[place] = random.choice(("x: !!python/object:os.system y", "x: !!binary aGk=", "x: !!set {a}"))
    else:
        lines[place] = "batch_size: " + "9" * 5000
    return "\n".join(lines).encode()


def _places(node: Any, path: str) -> list[tuple[Any, Any, str]]:
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    found = []
    for key, entry in pairs[:20]:
        found += [(node, key, f"{path}.{key}"), *_places(entry, f"{path}.{key}")]
    return found


def _deep(levels: int) -> Any:
    node: Any = 1
    for _ in range(levels):
        node = [node]
    return node
