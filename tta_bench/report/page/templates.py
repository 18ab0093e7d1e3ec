"""Files of a package's folder, and templates from there: for the page, and for the site of a board."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined


def text_of(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def script_json(content: Any) -> str:
    """JSON as part of a script: it cannot end a script element nor open another."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def environment(package: str) -> Environment:
    """Templates of the package: all values are escaped, and a missing one is an error."""
    return Environment(
        loader=FunctionLoader(lambda name: text_of(package, name)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
