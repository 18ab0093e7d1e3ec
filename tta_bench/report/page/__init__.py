"""The page: one HTML file with the whole comparison, readable without a network and without JavaScript's help.

Python writes the table, the failures and the details as plain markup; `*.js` adds sorting, filtering and the charts.
Text reaches the page through `escape` or as JSON; the page's security policy runs only this folder's script and style.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from tta_bench.records.cell import Cell
from tta_bench.records.predictions import Predictions
from tta_bench.report.leaderboard import NO_MARKS, Close
from tta_bench.report.page import markup
from tta_bench.report.page.data import Line, gather
from tta_bench.report.page.published import published
from tta_bench.report.rows import Comparison
from tta_bench.report.tables import accuracy_table, time_table
from tta_bench.report.values import Table

SCRIPTS = ("core.js", "leaderboard.js", "curves.js", "charts.js")


def page(
    comparison: Comparison,
    predictions: Callable[[Cell], Predictions],
    title: str,
    close: Close = NO_MARKS,
    paper: Table | None = None,
) -> str:
    """The page as text; each cell's predictions are asked for once.

    Rows that cannot be told from the best are marked; published numbers have a section of their own.
    """
    accuracy, cost = accuracy_table(comparison), time_table(comparison)
    lines = gather(comparison, accuracy, cost, predictions)
    style, script = _text("page.css"), _script()
    return Template(_text("page.html")).substitute(
        title=escape(title),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}",
        style=style,
        script=script,
        data=_json(_payload(comparison.tasks, lines)),
        facts=markup.facts(comparison),
        warnings=markup.warnings(accuracy.notes),
        notes=markup.notes((*close.notes, *accuracy.notes, *cost.notes)),
        leaderboard=markup.leaderboard(comparison.tasks, lines, close.labels),
        paper=published(_without(paper, accuracy.notes)) if paper else "",
        failures=markup.failures(comparison),
        details=markup.details(lines),
    )


def _without(table: Table, told: Sequence[str]) -> Table:
    """A table without the notes that stand on the page already."""
    return replace(table, notes=tuple(note for note in table.notes if note not in told))


def _payload(tasks: Sequence[str], lines: Sequence[Line]) -> dict[str, Any]:
    """What the charts draw: numbers only, as short as they may be."""
    return {
        "tasks": list(tasks),
        "costs": list(dict.fromkeys(name for line in lines for name in line.costs)),
        "methods": [
            {
                "label": line.row.label,
                "source": line.row.first.cell.method == "source",
                "scores": [None if math.isnan(value) else round(value, 2) for value in line.means],
                "intervals": [interval and [round(bound, 2) for bound in interval] for interval in line.intervals],
                "costs": {name: round(value, 4) for name, value in line.costs.items()},
                "streams": line.streams,
                "curves": line.curves,
            }
            for line in lines
        ],
    }


def _json(content: Any) -> str:
    """JSON that cannot end its script element nor open another."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script() -> str:
    return "(() => {\n" + "\n".join(_text(name) for name in SCRIPTS) + "})();\n"


def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
