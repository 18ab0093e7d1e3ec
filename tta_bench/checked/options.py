"""Options as fields of dataclasses: the field's metadata has what a command line needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, field, fields
from typing import Any

from tta_bench.checked import readers
from tta_bench.checked.readers import BadValue
from tta_bench.checked.validate import default_of as default_of
from tta_bench.errors import UserError

WHAT, HOW, OUT, WHERE = GROUPS = "what to compare", "how to run", "where results go", "where cells run"


# How `--help` shows the value of an option that is read by one of these.
METAVARS: dict[Callable[[Any], Any], str] = {
    readers.text: "NAME",
    readers.names: "A,B,…",
    readers.seeds: "0,1,2",
    readers.gpus: "0,1,…",
    readers.whole: "N",
    readers.positive: "N",
    readers.ratio: "NUMBER",
    readers.speed: "NUMBER",
    readers.seconds: "2h",
    readers.path: "DIR",
}


def option(
    default: Any,
    help: str,
    read: Callable[[Any], Any] = readers.text,
    group: str = HOW,
    *,
    metavar: str = "",
    choices: tuple[str, ...] = (),
    repeat: bool = False,
) -> Any:
    """A field that is an option; `default` may be a function, and False makes a flag.

    `help` may hold `{default}`. `repeat` collects the values of several uses into a list.
    """
    if default is False or read is readers.flag:
        read = readers.flag
    elif choices and read is readers.text:
        read = readers.one_of(*choices)
    metavar = metavar or METAVARS.get(read, "")
    about = {"help": help, "read": read, "metavar": metavar, "choices": choices, "repeat": repeat, "group": group}
    return (
        field(default_factory=default, metadata=about) if callable(default) else field(default=default, metadata=about)
    )


def read_one(f: Field[Any], value: Any) -> Any:
    """The value of an option, None for its default; UserError if it is a bad one."""
    value = default_of(f) if value is None else value
    try:
        return None if value is None else f.metadata["read"](value)
    except BadValue as error:
        raise UserError(f"{f.name}: {error}") from None


def read_all(options: Any) -> None:
    """Convert every option of a frozen dataclass in place."""
    for f in fields(options):
        object.__setattr__(options, f.name, read_one(f, getattr(options, f.name)))


def part(cls: type, whole: object) -> dict[str, Any]:
    """The values of a dataclass's fields, taken by name from something that has them all."""
    return {f.name: getattr(whole, f.name) for f in fields(cls)}


def flag_of(name: str) -> str:
    """How a command line spells an option."""
    return f"--{name.replace('_', '-')}"
