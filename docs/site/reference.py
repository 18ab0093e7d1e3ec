"""Reference pages made from code: commands from their parsers, Python names from their docstrings.

They are made with each build and not committed: nobody can forget to renew them. In a terminal, `--help` and `help()`
show the same.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tta_bench.cli.main import parser

# By the module that a user imports it from. Names of the first come from its `__all__`.
NAMES = {
    "tta_bench": (),
    "tta_bench.testing": ("check_method", "BrokenPromise"),
    "tta_bench.datasets": ("Dataset",),
    "tta_bench.models.packaged": ("PackagedModel", "Family"),
    "tta_bench.engines": ("Engine",),
    "tta_bench.export": ("Exporter", "Content", "Run"),
    "tta_bench.errors": ("UserError",),
}


def pages() -> dict[str, str]:
    return {"commands.md": commands(), "api.md": api()}


def commands() -> str:
    """Every command with its options, from the parsers that read them."""
    top = parser()
    lines = ["# Commands", "", _prose(top.description), "", "```text", (top.epilog or "").strip(), "```", ""]
    for verb in _verbs(top):
        lines += _command(verb)
    return "\n".join(lines)


def _verbs(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield verb
                yield from _verbs(verb)


def _command(verb: argparse.ArgumentParser) -> list[str]:
    lines = [f"## {verb.prog}", "", _prose(verb.description), ""]
    for group in verb._action_groups:
        shown = [a for a in group._group_actions if a.help != argparse.SUPPRESS and a.dest != "help"]
        if not shown:
            continue
        title = {"positional arguments": "argument", "options": "option"}.get(group.title or "", group.title)
        lines += [f"| {title} | meaning |", "|---|---|"]
        lines += [f"| {_invocation(action)} | {_help(action, verb)} |" for action in shown]
        lines.append("")
    return [*lines, *(["```text", verb.epilog.strip(), "```", ""] if verb.epilog else [])]


def _invocation(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):
        return ", ".join(f"`{name}`" for name in action.choices)
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = action.metavar or choices or (action.dest if not action.option_strings else action.dest.upper())
    words = value if isinstance(value, str) else " ".join(value)
    if not action.option_strings:
        return f"`{words}{' …' if action.nargs in ('+', '*') else ''}`"
    shown = "" if action.nargs == 0 else f" [{words}]" if action.nargs == "?" else f" {words}"
    return ", ".join(f"`{name}{shown}`" for name in action.option_strings).replace("|", "\\|")


def _help(action: argparse.Action, verb: argparse.ArgumentParser) -> str:
    if not action.help:
        return "required" if action.required else ""
    text = action.help % {**vars(action), "prog": verb.prog} if "%" in action.help else action.help
    return _prose(text).replace("|", "\\|") + (" (required)" if action.required and action.option_strings else "")


def api() -> str:
    """The public names, each with its signature and docstring."""
    lines = ["# Python", "", "What a script, a notebook or a plug-in imports.", ""]
    for module, names in NAMES.items():
        home = import_module(module)
        lines += [f"## {module}", ""]
        for name in names or [name for name in home.__all__ if not name.startswith("__")]:
            lines += _object(name, getattr(home, name), "###")
    return "\n".join(lines)


def _object(name: str, found: Any, heading: str) -> list[str]:
    lines = [f"{heading} {name}", "", "```python", _signature(name, found), "```", "", _docstring(found), ""]
    if not isinstance(found, type) or issubclass(found, Exception):
        return lines
    for member, value in vars(found).items():
        inner = value.func if hasattr(value, "func") else getattr(value, "fget", value)
        inner = getattr(inner, "__func__", inner)
        if member.startswith("_") or not inspect.isfunction(inner) or not inspect.getdoc(inner):
            continue
        if isinstance(value, property) or hasattr(value, "func"):
            lines += [f"**{name}.{member}** (property): {_docstring(inner)}", ""]
        else:
            lines += ["```python", _signature(f"{name}.{member}", inner), "```", "", _docstring(inner), ""]
    return lines


def _signature(name: str, found: Any) -> str:
    """One line if it fits, else one argument per line."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return name
    back = signature.return_annotation
    ending = "" if isinstance(found, type) or not isinstance(back, str) else f" -> {back}"
    stars = [p.kind for p in signature.parameters.values()]
    parts = [_parameter(parameter) for parameter in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in stars and inspect.Parameter.VAR_POSITIONAL not in stars:
        parts.insert(stars.index(inspect.Parameter.KEYWORD_ONLY), "*")
    line = f"{name}({', '.join(parts)}){ending}"
    return line if len(line) <= 100 else "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){ending}"])


def _parameter(parameter: inspect.Parameter) -> str:
    """Annotations are strings in this project; they are shown without quotes."""
    text, kind = str(parameter), parameter.annotation
    return text.replace(repr(kind), kind, 1) if isinstance(kind, str) else text


def _docstring(found: Any) -> str:
    return _prose(inspect.getdoc(found) or "")


def _prose(text: str | None) -> str:
    """Plain text as Markdown: what looks like HTML or emphasis outside of backticks stays as it is."""
    parts = re.split(r"(`[^`]*`)", text or "")
    return "".join(part if part.startswith("`") else re.sub(r"([<*_])", r"\\\1", part) for part in parts)
