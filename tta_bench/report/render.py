"""Tables on the screen, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from tta_bench.report.tables import Table, Value


def show(table: Table, console: Console) -> None:
    """Print a table; one that is too wide for the screen is turned, so that no figure is cut."""
    upright = _rich(table)
    needed = Measurement.get(console, console.options.update(max_width=10_000), upright).minimum
    if needed > console.width and len(table.rows) < len(table.columns):
        upright = _rich(_turned(table))
    console.print(upright)
    for note in table.notes:
        console.print(Text(f"  {note}", style="bold red" if note.startswith(("FAILED", "NOT ", "WARNING")) else "dim"))
    console.print()


def markdown(table: Table) -> str:
    """A table for a README or a pull request; the best of each column is bold."""
    cells = [["method", *table.columns]]
    cells += [[label, *(f"**{v}**" if v.best else str(v) for v in values)] for label, values in table.rows]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    width = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [
        "| " + " | ".join(_pad(cell, w, i == 0) for i, (cell, w) in enumerate(zip(row, width, strict=True))) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(width)) + "|"
    notes = [f"- {note}" for note in table.notes]
    return "\n".join([f"### {table.title}", "", lines[0], rule, *lines[1:], "", *notes, ""])


def csv_text(table: Table) -> str:
    """A table for a spreadsheet: plain numbers, the spread over seeds in columns of its own."""
    spread = [any(values[i].std is not None for _, values in table.rows) for i in range(len(table.columns))]
    head = ["method"]
    for name, has_spread in zip(table.columns, spread, strict=True):
        head += [name, f"{name} std"] if has_spread else [name]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for label, values in table.rows:
        writer.writerow([label, *_plain(values, spread)])
    return out.getvalue()


def _plain(values: Sequence[Value], spread: Sequence[bool]) -> list[str]:
    cells = []
    for value, has_spread in zip(values, spread, strict=True):
        cells.append(str(Value(value.mean, None, value.word, value.digits + 1)))
        if has_spread:
            cells.append("" if value.std is None else f"{value.std:.{value.digits + 1}f}")
    return cells


def _rich(table: Table) -> RichTable:
    grid = RichTable(
        title=table.title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", padding=(0, 1, 0, 0)
    )
    grid.add_column("method", no_wrap=True)
    for name in table.columns:
        grid.add_column(name, justify="right", no_wrap=True)
    for label, values in table.rows:
        grid.add_row(Text(label), *(_styled(value) for value in values))
    return grid


def _styled(value: Value) -> Text:
    return Text(str(value), style="bold green" if value.best else "red" if value.word == "failed" else "")


def _turned(table: Table) -> Table:
    rows = [(name, tuple(values[i] for _, values in table.rows)) for i, name in enumerate(table.columns)]
    return Table(table.title, tuple(label for label, _ in table.rows), tuple(rows), table.notes)


def _pad(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)
