"""The section of the page that puts a paper's numbers beside the measured ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from tta_bench.report.page.markup import prose
from tta_bench.report.values import Table, Value

ABOUT = (
    "Differences are measured less published, in the units of the table. Where a row says no, its numbers come from "
    "another setting than the paper's and must not be compared; the letters lead to the reasons."
)


def published(table: Table) -> str:
    """A table with its reasons, or nothing but the notes where no row is in the paper."""
    title = '<h2 id="paper-title">Measured and published</h2>'
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in (table.head, *table.columns))
    body = "".join(_row(label, values) for label, values in table.rows)
    grid = (
        '<div class="scroll" tabindex="0" role="region" aria-labelledby="paper-title">'
        f'<table class="beside"><caption>{escape(table.title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
        f'<p class="quiet under">{escape(ABOUT)}</p>'
    )
    notes = "".join(_note(note) for note in table.notes)
    return (
        f'<section id="paper" aria-labelledby="paper-title"><div class="bar">{title}</div>\n'
        + (grid if table.rows else "")
        + f'<ul class="notes">{notes}</ul></section>'
    )


def _row(label: str, values: Sequence[Value]) -> str:
    signed = any(value.signed for value in values)
    kind = ' class="difference"' if signed and all(value.signed for value in values[:-1]) else ""
    cells = "".join(_cell(value) for value in values)
    return f'<tr{kind}><th scope="row"><span>{escape(label)}</span></th>{cells}</tr>\n'


def _cell(value: Value) -> str:
    why = re.fullmatch(r"no: ([a-z ]+)", value.word)
    if why:
        links = (f'<a href="#reason-{letter}">{letter}</a>' for letter in why[1].split())
        return f"<td>no: {' '.join(links)}</td>"
    return f"<td>{escape(str(value))}</td>"


def _note(note: str) -> str:
    why = re.match(r"Not comparable, ([a-z]+): ", note)
    name = f' id="reason-{why[1]}"' if why else ""
    return f"<li{name}>{prose(note)}</li>"
