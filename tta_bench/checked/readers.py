"""Reads values of options: text of a command line, or whatever a Python call gives.

Each reader returns the value or raises `BadValue` with one line; argparse prints it after the option's name.
"""

from __future__ import annotations

import math
import operator
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tta_bench.checked.validate import shown

BadValue = ArgumentTypeError  # argparse shows the text of this error only

LONGEST = 365 * 86400  # seconds that somebody may want to wait
LARGEST = 2**53  # larger whole numbers are not exact as floats
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}

# Options of sbatch that work without a value.
SBATCH_FLAGS = frozenset(
    (
        *("contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "nice", "no-kill", "no-requeue"),
        *("overcommit", "oversubscribe", "propagate", "quiet", "reboot", "requeue", "spread-job", "stepmgr"),
        *("use-min-nodes", "verbose"),
    )
)


def text(given: Any) -> str:
    """Text that is not empty."""
    if not isinstance(given, str) or not given:
        raise BadValue(f"expected text, got {shown(given)}")
    return given


def path(given: Any) -> Path:
    """A file or folder."""
    try:
        return Path(given)
    except TypeError:
        raise BadValue(f"expected a path, got {shown(given)}") from None


def flag(given: Any) -> bool:
    """True or false."""
    if not isinstance(given, bool):
        raise BadValue(f"expected True or False, got {shown(given)}")
    return given


def one_of(*known: str) -> Callable[[Any], str]:
    """A reader that takes these words only."""

    def word(given: Any) -> str:
        if given not in known:
            raise BadValue(f"expected {', '.join(known)}, got {shown(given)}")
        return str(given)

    return word


def names(given: Any) -> tuple[str, ...]:
    """Names, each once; as text they are separated by commas."""
    found = _listed(given, "names, as in ['fog', 'snow']")
    for name in found:
        if not isinstance(name, str):
            raise BadValue(f"expected names, got {shown(name)}")
        if found.count(name) > 1:
            raise BadValue(f"'{name}' is listed twice")
    return found


def seeds(given: Any) -> tuple[int, ...]:
    """Seeds, each once; as text they are separated by commas."""
    try:
        found = tuple(int(one) if isinstance(one, str) else operator.index(one) for one in _listed(given, _SEEDS))
    except (TypeError, ValueError):
        raise BadValue(f"expected {_SEEDS}, got {shown(given)}") from None
    for number in found:
        if found.count(number) > 1:
            raise BadValue(f"'{number}' is listed twice")
    return tuple(map(seed, found))


def seed(given: Any) -> int:
    """A whole number that torch takes as a seed."""
    return bounded(given, 0, 2**63 - 1, "below 2^63")


def gpus(given: Any) -> tuple[int, ...]:
    """Numbers of GPUs, each once; as text they are separated by commas."""
    found = tuple(whole(one) for one in _listed(given, "numbers of GPUs, as in 0,1"))
    if len(set(found)) < len(found):
        raise BadValue(f"expected different GPUs, got {shown(given)}")
    return found


def whole(given: Any) -> int:
    """A whole number of at least 0."""
    return bounded(given, 0)


def positive(given: Any) -> int:
    """A whole number of at least 1."""
    return bounded(given, 1)


def ratio(given: Any) -> float:
    """A number above 0."""
    if not (found := _number(given)) > 0:
        raise BadValue(f"expected a number above 0, got {shown(given)}")
    return found


def speed(given: Any) -> float:
    """A number of at least 0."""
    if not (found := _number(given)) >= 0:
        raise BadValue(f"expected a number of at least 0, got {shown(given)}")
    return found


def seconds(given: Any) -> float:
    """A time in seconds; as text `90`, `90s`, `2m` or `2h`."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", given) if isinstance(given, str) else None
    found = float(parts[1]) * UNITS[parts[2]] if parts else -1.0 if isinstance(given, str) else _number(given)
    if not 0 < found <= LONGEST:
        raise BadValue(f"expected a time above 0 as in 90s, 2m or 2h, got {shown(given)}")
    return found


def sbatch(given: Any) -> dict[str, str]:
    """Options of sbatch: a mapping, or text as in `partition=a,b,time=4:00:00,exclusive`.

    A value may be a list: what follows a comma belongs to it, unless it is `key=…` or one of SBATCH_FLAGS. Options have
    lower-case names: in `export=ALL,DATA=/d`, the second one is a variable.
    """
    if isinstance(given, Mapping):
        return {str(key): str(value) for key, value in given.items()}
    found: dict[str, str] = {}
    last = ""  # the option that has the value before this part
    for part in map(str.strip, text(given).split(",")):
        key, mark, value = part.partition("=")
        is_option = bool(re.fullmatch(r"[a-z][a-z0-9-]+", key)) and bool(mark or key in SBATCH_FLAGS or not last)
        if is_option and key not in found and bool(mark) == bool(value):
            found[key] = value
            last = key if mark else ""
        elif last and not is_option:
            found[last] += f",{part}"
        else:
            raise BadValue(
                f"expected long options of sbatch, each once, as in partition=gpu,time=4:00:00, got '{part}'"
            )
    return found


_SEEDS = "whole numbers as in 0,1,2"


def _listed(given: Any, words: str) -> tuple[Any, ...]:
    if isinstance(given, str):
        found = tuple(part.strip() for part in given.split(",") if part.strip())
        if not found:
            raise BadValue("expected at least one name")
        return found
    try:
        return tuple(given)
    except TypeError:
        raise BadValue(f"expected {words}, got {shown(given)}") from None


def bounded(given: Any, least: int, most: int = LARGEST, limit: str = "") -> int:
    """A whole number in these limits; `limit` says the upper one in other words."""
    try:
        found = int(given) if isinstance(given, str) and given.isdecimal() else operator.index(given)
    except (TypeError, ValueError):  # Python reads no more than some thousand digits
        found = least - 1
    if found > most:
        raise BadValue(f"expected a whole number {limit or f'from {least} to {most:,}'}, got {shown(given)}")
    if isinstance(given, bool) or found < least:
        raise BadValue(f"expected a whole number of at least {least}, got {shown(given)}")
    return found


def _number(given: Any) -> float:
    """A finite number; NaN for anything else, which passes no comparison."""
    try:
        found = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) else math.nan
