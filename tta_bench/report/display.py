"""A table that shows itself: drawn by rich in a terminal, as HTML in a notebook."""

from __future__ import annotations

import io
from dataclasses import dataclass
from html import escape

from rich.console import Console, ConsoleOptions, RenderResult

from tta_bench.errors import clean
from tta_bench.report import render
from tta_bench.report.values import Table


@dataclass(frozen=True, repr=False)
class Display:
    """One table, and a sentence about it."""

    table: Table
    sentence: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from render.parts(self.table, console)
        if self.sentence:
            yield clean(self.sentence)

    def __repr__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=Console().width, highlight=False, markup=False, emoji=False).print(self)
        return text.getvalue()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in (self.table.head, *self.table.columns))
        rows = "".join(
            f"<tr><th>{escape(label)}</th>"
            + "".join(f"<td>{'<b>' if v.best else ''}{escape(str(v))}{'</b>' if v.best else ''}</td>" for v in values)
            + "</tr>"
            for label, values in self.table.rows
        )
        notes = "".join(f"<li>{escape(str(note))}</li>" for note in self.table.notes)
        return (
            f"<table><caption>{escape(self.table.title)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table><ul>{notes}</ul><p>{escape(self.sentence)}</p>"
        )

    def markdown(self) -> str:
        """The table for a README or a pull request."""
        return render.markdown(self.table)

    def csv(self) -> str:
        """The table for a spreadsheet."""
        return render.csv_text(self.table)
