"""Errors that a user can fix, and text that fits into one line of a screen.

The command line prints the line of an error and exits with status 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

# What a run needs and a light install leaves out (requirements-report.txt), by the names of their modules.
LEFT_OUT = ("PIL", "huggingface_hub", "scipy", "sklearn", "timm", "torch", "torchvision")


class UserError(Exception):
    """The user's input is wrong: the message says what, where and what to do."""


class UnmatchedStreams(UserError):
    """Rows of one table did not see the same images in the same order."""


class MissingPackage(UserError):
    """A package is missing that reading results does without."""


class RunStopped(UserError):
    """Nothing is wrong with a method, but the run cannot go on; finished cells are kept, the same command resumes."""


class Cancelled(RunStopped):
    """Somebody has ended the run with `tta-bench status --cancel`."""


class CellFailed(Exception):
    """One method failed on one stream: other cells continue, and the record keeps the reason."""


def reason(error: BaseException, most: int = 300) -> str:
    """One printable line for any exception: its message for ours, its kind and message for others."""
    text = "".join(mark if mark.isprintable() else " " for mark in str(error)[: 10 * most])
    line = " ".join(text.split()) or "no message"
    if not isinstance(error, CellFailed | UserError):
        line = f"{type(error).__name__}: {line}"
    return line if len(line) <= most else f"{line[: most - 1]}…"


@contextmanager
def third_party(what: str) -> Iterator[None]:
    """Any exception of third-party code in this block becomes a one-line UserError that starts with `what`."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # third-party code may raise anything
        raise UserError(f"{what}: {reason(error)}") from error


@contextmanager
def about(what: str) -> Iterator[None]:
    """Errors of this block start with what they are about."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{what}: {error}") from None


@contextmanager
def about_row(label: str) -> Iterator[None]:
    """Errors of this block start with the row that they are about: a run may have many, several of one method."""
    try:
        yield
    except UserError as error:
        if str(error).startswith(f"method '{label}'"):
            raise
        raise type(error)(f"row '{label}': {error}") from error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to append to "unknown ...": the closest known word, if any, and all known words."""
    choices = sorted(known)
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return f"{hint} (known: {', '.join(choices) or 'none'})"


def require_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    """Refuse the first name that is not known; the error starts with `what`, as in "unknown task"."""
    for name in names:
        if name not in known:
            raise UserError(f"{what} '{name}'{did_you_mean(name, known)}")


def some(names: Sequence[str], most: int = 3, separator: str = ", ") -> str:
    """The first names of a list, and how many more there are."""
    shown = separator.join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def clean(text: str) -> str:
    """Text in one line without control characters: a name from a file must not move the cursor."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(char if char.isprintable() else "�" for char in line)


@contextmanager
def needs_packages() -> Iterator[None]:
    """Where an import fails in this block because the install is a light one, say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in LEFT_OUT:
            raise
        raise _missing(error.name) from error


def require(package: str) -> None:
    """Refuse to start what needs a package that a light install leaves out; imports nothing."""
    if find_spec(package) is None:
        raise _missing(package)


def _missing(package: str) -> MissingPackage:
    return MissingPackage(f"this needs {package}, which is not installed: pip install tta-bench (without --no-deps)")
