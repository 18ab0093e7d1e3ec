"""Suites as text: a suite's YAML to start from, and the reference page of suite files."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from tta_bench.checked import validate
from tta_bench.checked.validate import Key
from tta_bench.suites.suite import LOOP, Suite

HEAD = """\
# Suite files

A suite defines what is compared on what: `tta-bench run --suite mine.yaml`. Start from an existing one:
`tta-bench suite copy digits-c-5 > mine.yaml`. `tta-bench check --suite mine.yaml` finds mistakes before a run.

`tta-bench suite schema` generates this page from the code that checks suites.
"""

LOOPS = f"""\
## Several suites in one file

`{LOOP}: {{severity: [1, 2]}}` defines one suite per value, with `{{severity}}` replaced in every text; a text that is
exactly `"{{severity}}"` becomes the value itself. `--suite` accepts only files with one suite.
"""

KINDS = """\
## Data

`data: {kind: …}` names one of these kinds; the other keys are its options.
"""


def as_yaml(suite: Suite) -> str:
    """A suite as YAML that reads back as the same suite; keys with default values are omitted."""
    import yaml

    content: dict[str, Any] = {}
    for f in fields(Suite):
        value = getattr(suite, f.name)
        default = validate.default_of(f)
        if default is MISSING or value != default:
            content[f.name] = list(value) if isinstance(value, tuple) else value
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110)
    return f"# A copy of {suite.name}: give it a name of your own, so that results do not mix.\n{text}"


def page() -> str:
    """The reference page of suite files, as Markdown."""
    from tta_bench.datasets import kind, kinds

    parts = [HEAD, _table(validate.describe(Suite)), LOOPS, KINDS]
    for name in kinds().names():
        cls = kind(name)
        place = f"Needs `{cls.layout}` below `--data-root`." if cls.layout else "Needs no `--data-root`."
        options = validate.parameters(cls, ())
        parts += [f"### {name}\n\n{place}\n", *([_table(options)] if options else [])]
    return "\n".join(parts)


def _table(keys: list[Key]) -> str:
    about = any(key.about for key in keys)
    head = ["key", "expected", "default", *(["what it is"] if about else [])]
    rows = [[f"`{k.name}`", k.expected, _default(k), *([k.about] if about else [])] for k in keys]
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _default(key: Key) -> str:
    if key.required:
        return "required"
    value = list(key.default) if isinstance(key.default, tuple) else key.default
    words = {None: "none", True: "true", False: "false", "": "empty"}
    return words[value] if isinstance(value, (str, bool, type(None))) and value in words else f"`{value}`"
