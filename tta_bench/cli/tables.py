"""Text tables for `tta-bench list`: as wide as the screen, or one line per value on a narrow one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from tta_bench.cli import options
from tta_bench.plugins import OWN

NARROW = 80  # columns needed for a table


def show(head: Sequence[str], rows: Sequence[Sequence[str]], footer: str, least: int = NARROW) -> None:
    """Print a table; with fewer columns than `least` two lines for each row, on a narrow screen one for each value.

    The last column, the package that provides a row, is omitted if all come from tta-bench.
    """
    console = options.narrow_console()
    if all(row[-1] == OWN for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    else:
        footer += f" {head[-1]}: the package that provides it."
    if console.width < least:
        for name, *cells in rows:
            values = dict(zip(head[1:], cells, strict=True))
            if console.width < NARROW:
                details(name, values)
            else:
                say(name)
                say("  " + ", ".join(f"{key}: {value}" for key, value in values.items()))
        say(footer)
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in head:
        # The first column is typed on the command line, so it is not wrapped.
        table.add_column(name, overflow="fold", no_wrap=name == head[0])
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    say(footer)


def numbers(head: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int, title: str | None = None) -> Table:
    """A table of numbers whose first columns are texts."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title=title, title_justify="left")
    for i, name in enumerate(head):
        table.add_column(name, justify="left" if i < texts else "right")
    for row in rows:
        table.add_row(*row)
    return table


def details(name: str, values: dict[str, str]) -> None:
    """Print a name, and below it a line per value."""
    say(name)
    for key, value in values.items():
        say(f"  {key}: {value}")


def say(line: str, style: str = "") -> None:
    """Print a line with a hanging indent; leading blanks indent all of it."""
    console = options.narrow_console()
    margin = " " * (2 + len(line) - len(line.lstrip()))
    text = textwrap.fill(
        line.strip(),
        console.width,
        initial_indent=margin,
        subsequent_indent=f"{margin}  ",
        break_on_hyphens=False,
    )
    console.print(Text(text, style=style))


def say_problems(problems: Sequence[str]) -> None:
    for problem in problems:
        say(problem, "red")
