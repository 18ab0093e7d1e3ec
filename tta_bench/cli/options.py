"""Options that several verbs share, made from the list of `run`'s, and how verbs write to the screen."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import MISSING, Field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench.checked import readers
from tta_bench.checked.options import GROUPS, HOW, WHAT, default_of, flag_of
from tta_bench.checked.readers import names, positive, ratio, seconds, seed, seeds, whole
from tta_bench.runs.options import NAMES, RUNS, RunOptions, scenario_settings

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["RUNS", "names", "positive", "ratio", "seconds", "seed", "seeds", "whole"]  # the types of other options

OF_CHECK = tuple(name for name in NAMES if RunOptions.__dataclass_fields__[name].metadata["group"] in (WHAT, HOW))


def add(verb: argparse.ArgumentParser, names: Iterable[str] = NAMES, **defaults: Any) -> None:
    """Give a verb these options of `run`; `defaults` are its own, MISSING for an option that is required."""
    groups = {title: verb.add_argument_group(title) for title in GROUPS}
    for name in names:
        f = RunOptions.__dataclass_fields__[name]
        group = groups[f.metadata["group"]]
        _add(group, f, defaults.get(name, default_of(f)))
        if name == "scenario":
            _add_scenario_settings(group)


def add_data_root(verb: argparse._ActionsContainer) -> None:
    """Where the datasets are, for a verb that has few options."""
    f = RunOptions.__dataclass_fields__["data_root"]
    _add(verb, f, default_of(f))


def _add(group: argparse._ActionsContainer, f: Field[Any], default: Any, help: str = "") -> None:
    about = f.metadata
    text = (help or about["help"]).replace("%", "%%").replace("{default}", "%(default)s")
    how: dict[str, Any] = {"metavar": about["metavar"], "type": about["read"]}
    if about["read"] is readers.flag:
        how = {"action": "store_true"}
    elif about["choices"]:
        how = {"choices": about["choices"]}
    elif about["repeat"]:
        how = {"metavar": about["metavar"], "action": "append"}
    how |= {"required": True} if default is MISSING else {"default": default}
    group.add_argument(flag_of(f.name), help=text, **how)


def _add_scenario_settings(group: argparse._ActionsContainer) -> None:
    """The settings that scenarios declare."""
    for f, homes in scenario_settings().values():
        shown = f"{f.default:g}" if isinstance(f.default, float) else f"{f.default}"
        _add(group, f, None, f"{', '.join(homes)}: {f.metadata['help']} (default: {shown})")


def console() -> Console:
    """The screen; a file or a pipe gets lines wide enough for whole tables."""
    screen = _literal()
    return screen if screen.is_terminal else _literal(width=200)


def narrow_console() -> Console:
    """The screen for tables of words, which wrap; a file or a pipe gets $COLUMNS, or lines that a page can hold."""
    screen = _literal()
    given = os.environ.get("COLUMNS", "")
    return screen if screen.is_terminal or given.isdecimal() else _literal(width=120)


def _literal(width: int | None = None) -> Console:
    """Shows text as it is: a path may have [brackets] or :colons: in it, which rich would read as markup and emoji."""
    from rich.console import Console

    class Literal(Console):
        def print(self, *objects: Any, **kwargs: Any) -> None:
            super().print(*(_harmless(one) if isinstance(one, str) else one for one in objects), **kwargs)

        def on_broken_pipe(self) -> None:
            """Leave it to `main`: rich would exit with status 1."""
            raise BrokenPipeError

    return Literal(highlight=False, markup=False, emoji=False, width=width)


def _harmless(text: str) -> str:
    """The same lines without control characters, which a name in a stranger's folder may have."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """The runs that a command reads: not paths, because an address has two slashes."""
    about = "run folder, packed run, or the web address of one; several are merged"
    parser.add_argument("dirs", nargs="+", metavar="RUN", help=about)


def say_written(files: Iterable[Path], screen: Console) -> None:
    """Names files on one line, however long: a name that is broken into two cannot be copied."""
    screen.print(f"Written: {', '.join(map(str, files))}", soft_wrap=True)
