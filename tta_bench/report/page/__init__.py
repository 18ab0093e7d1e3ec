"""The page: one HTML file with the whole comparison, readable without a network and without JavaScript.

The templates write the table, the failures and the details; `*.js` adds sorting, filtering and charts. Jinja escapes
all text, or it comes as JSON; the page's security policy runs only this folder's script and style.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace

from markupsafe import Markup

from tta_bench.records.cell import Cell
from tta_bench.report.leaderboard import NO_MARKS, Close
from tta_bench.report.page import templates, view
from tta_bench.report.page.data import gather, payload
from tta_bench.report.rows import Comparison
from tta_bench.report.runs import Outline
from tta_bench.report.tables import accuracy_table, time_table
from tta_bench.report.values import Table

DRAWING = ("svg.js", "scatter.js", "lines.js", "theme.js")  # the board's site has them, too
SCRIPTS = (*DRAWING, "core.js", "leaderboard.js", "curves.js", "charts.js")


def page(
    comparison: Comparison,
    predictions: Callable[[Cell], Outline],
    title: str,
    close: Close = NO_MARKS,
    paper: Table | None = None,
    tables: tuple[Table, Table] | None = None,
) -> str:
    """The page as text; each cell's predictions are asked for once.

    Rows that are not distinguishable from the best are marked; published numbers have a section of their own.
    `tables` are accuracy and time, where they are made already.
    """
    accuracy, cost = tables or (accuracy_table(comparison), time_table(comparison))
    lines = gather(comparison, accuracy, predictions)
    style, script = text_of("page.css"), templates.in_one_scope("\n".join(map(text_of, SCRIPTS)))
    if paper:  # without the notes that the page shows already
        paper = replace(paper, notes=tuple(note for note in paper.notes if note not in accuracy.notes))
    return (
        templates.environment(__package__)
        .get_template("page.html")
        .render(
            title=title,
            policy=f"default-src 'none'; style-src {hash_of(style)}; script-src {hash_of(script)}",
            style=Markup(style),
            script=Markup(script),
            data=Markup(templates.script_json(payload(comparison.tasks, lines))),
            facts=view.facts(comparison),
            warnings=view.warnings((*accuracy.notes, *cost.notes)),
            notes=view.quiet((*close.notes, *accuracy.notes, *cost.notes)),
            heads=view.heads(comparison, lines),
            rows=view.leaderboard(comparison, lines),
            close=close.labels,
            paper=paper,
            failures=view.failures(comparison),
            details=view.details(lines),
        )
    )


def text_of(name: str) -> str:
    """A file of this folder."""
    return templates.text_of(__package__, name)


def hash_of(text: str) -> str:
    """A text as a source that a security policy allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
