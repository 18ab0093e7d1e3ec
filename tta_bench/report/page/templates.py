"""Files of a package's folder, and templates from there: for the pages of `report` and `show`, and for a board."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape


def text_of(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def script_json(content: Any) -> str:
    """JSON as part of a script: it cannot end a script element nor open another."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def in_one_scope(scripts: str) -> str:
    """Scripts that share their names with each other and with nothing else on a page."""
    return f"(() => {{\n{scripts}}})();\n"


def prose(text: object) -> Markup:
    """A note as markup: `so` is code, all else is text."""
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


@cache
def environment(package: str) -> Environment:
    """Templates of the package: all values are escaped, and a missing one is an error."""
    made = Environment(
        loader=FunctionLoader(lambda name: text_of(package, name)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["prose"] = prose
    return made
