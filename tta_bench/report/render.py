"""Tables on the screen, as Markdown and as CSV. Names are printed literally in each, whatever they contain."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from tta_bench.errors import clean
from tta_bench.report.values import FAILED, MISSING, Table, Value

FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # wide forms too: some spreadsheets read them alike
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def show(table: Table, console: Console) -> None:
    """Print a table; if it is too wide for the screen, transposed or in blocks, so that no number is cut."""
    for part in parts(table, console):
        console.print(part)
    console.print()


def parts(table: Table, console: Console) -> Iterator[RichTable | Text]:
    """A table as rich draws it: one or more blocks that fit the screen, then the notes."""
    yield from map(_rich, _fitting(table, console))
    for note in table.notes:
        yield Text(f"  {clean(str(note))}", style="bold red" if note.is_loud else "dim")


def _fitting(table: Table, console: Console) -> Iterator[Table]:
    turned = _turned(table)
    if _fits(table, console) or len(table.columns) <= 1:
        yield table
    elif len(table.rows) < len(table.columns) and _fits(turned, console):
        yield turned
    else:
        count = len(table.columns) - 1
        while count > 1 and not _fits(_columns(table, 0, count), console):
            count -= 1
        yield _columns(table, 0, count)
        yield from _fitting(replace(_columns(table, count, None), title=""), console)


def _fits(table: Table, console: Console) -> bool:
    wide = console.options.update(max_width=10_000)
    return Measurement.get(console, wide, _rich(replace(table, title=""))).maximum <= console.width


def _columns(table: Table, start: int, stop: int | None) -> Table:
    rows = tuple((label, values[start:stop]) for label, values in table.rows)
    return replace(table, columns=table.columns[start:stop], rows=rows)


def markdown(table: Table) -> str:
    """A table for a README or a pull request; the best of each column is bold."""
    cells = [[table.head, *map(markdown_text, table.columns)]]
    for label, values in table.rows:
        texts = [markdown_text(str(value)) for value in values]
        bold = [f"**{text}**" if value.best else text for text, value in zip(texts, values, strict=True)]
        cells.append([markdown_text(label), *bold])
    width = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [f"| {' | '.join([row[0].ljust(width[0]), *map(str.rjust, row[1:], width[1:])])} |" for row in cells]
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(width)) + "|"
    notes = [f"- {markdown_prose(str(note))}" for note in table.notes]
    return "\n".join([f"### {markdown_text(table.title)}", "", lines[0], rule, *lines[1:], "", *notes, ""])


def markdown_text(text: str) -> str:
    """Plain text in Markdown; underscores inside a word are plain already."""
    return _markdown_escaped(clean(text))


def _markdown_escaped(text: str) -> str:
    text = re.sub(r"[\\`*\[\]<>|~#&$]", r"\\\g<0>", text)
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)


def markdown_prose(text: str) -> str:
    """A note in Markdown: `so` stays code, all else is plain text."""
    pieces = re.split(r"(`[^`]+`)", clean(text))
    return "".join(piece if i % 2 else _markdown_escaped(piece) for i, piece in enumerate(pieces))


def csv_text(table: Table) -> str:
    """A table for a spreadsheet: plain numbers, the spread over seeds in columns of its own."""
    spread = [any(values[i].std is not None for _, values in table.rows) for i in range(len(table.columns))]
    head = [table.head]
    for name, has_spread in zip(table.columns, spread, strict=True):
        head += [name, f"{name} std"] if has_spread else [name]
    return csv_lines([head, *([label, *_plain(values, spread)] for label, values in table.rows)])


def csv_lines(rows: Sequence[Sequence[str]]) -> str:
    """Rows as CSV, each in one line; a spreadsheet takes no text for a formula."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[_inert(clean(cell)) for cell in row] for row in rows])
    return out.getvalue()


def _inert(cell: str) -> str:
    """A cell that a spreadsheet does not run: text that starts like a formula gets an apostrophe, numbers stay."""
    return f"'{cell}" if cell.startswith(FORMULA) and not NUMBER.fullmatch(cell) else cell


def _plain(values: Sequence[Value], spread: Sequence[bool]) -> list[str]:
    cells = []
    for value, has_spread in zip(values, spread, strict=True):
        cells.append(str(replace(value, std=None, digits=value.digits + 1, signed=False)))
        if has_spread:
            cells.append("" if value.std is None else f"{value.std:.{value.digits + 1}f}")
    return cells


def _rich(table: Table) -> RichTable:
    grid = RichTable(
        title=Text(clean(table.title)) if table.title else None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),
    )
    grid.add_column(table.head, no_wrap=True)
    for name in table.columns:
        grid.add_column(Text(clean(name)), justify="right", no_wrap=True)
    for label, values in table.rows:
        grid.add_row(Text(clean(label)), *(_styled(value) for value in values))
    return grid


def _styled(value: Value) -> Text:
    bad = value.word in (FAILED, MISSING)
    return Text(clean(str(value)), style="bold green" if value.best else "red" if bad else "")


def _turned(table: Table) -> Table:
    rows = tuple((name, tuple(values[i] for _, values in table.rows)) for i, name in enumerate(table.columns))
    return replace(table, columns=tuple(label for label, _ in table.rows), rows=rows, head="")
