"""The pages: templates filled with plain values, which jinja escapes."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment

from tta_bench.board.site.suites import DIVISIONS, BoardRow, SuiteBoard, ranks, slug
from tta_bench.board.submission import Package, Submission
from tta_bench.report import names
from tta_bench.report.column import Column, at
from tta_bench.report.columns import COLUMNS
from tta_bench.report.page import templates
from tta_bench.report.page.data import Interval
from tta_bench.report.page.view import SHADES
from tta_bench.report.values import Value

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'"
MOST_CLASSES = 20  # that a table shows one by one
Pages = Iterator[tuple[str, str]]


def pages(
    boards: Sequence[SuiteBoard], submissions: Sequence[Submission], title: str, metrics: Sequence[Column] = ()
) -> Pages:
    """File names and contents of all pages."""
    common = {"title": title, "boards": boards, "columns": _shown(at("board", (*COLUMNS, *metrics)), boards)}
    yield "index.html", _render("index.html", common, "", latest=_latest(boards), submissions=len(submissions))
    for board in boards:
        shorts = dict(zip(board.tasks, names.columns(board.tasks), strict=True))
        best = _best(board)
        yield f"suites/{board.slug}.html", _render("suite.html", common, "../", board=board, shorts=shorts, best=best)
        for task in board.tasks:
            rows = sorted(board.rows, key=lambda row: -_score(row, task)[0].rank)
            span = _span([_score(row, task)[1] for row in rows])
            places = ranks([(row.division, _score(row, task)[0].rank) for row in rows])
            placed = list(zip(places, rows, strict=True))
            content = _render("task.html", common, "../", board=board, task=task, rows=placed, span=span)
            yield f"tasks/{board.slug}--{slug(task)}.html", content
    for method, found in _methods(boards).items():
        yield f"methods/{method}.html", _render("method.html", common, "../", found=found, first=found[0][1])


def _shown(columns: Sequence[Column], boards: Sequence[SuiteBoard]) -> list[Column]:
    """Without the columns that only some runs have, and none of these."""
    titles = {title for board in boards for row in board.rows for title in row.row.costs}
    return [column for column in columns if column.only is None or column.title in titles]


def _render(template: str, common: dict[str, Any], root: str, **values: Any) -> str:
    """`root`: the way from the page to the site's root."""
    return _environment().get_template(template).render(**common, **values, root=root, policy=POLICY)


@cache
def _environment() -> Environment:
    made = templates.environment(__package__)
    made.filters.update(slug=slug, word=_word, span=_words_of, number=_number, bytes=_bytes)
    made.globals.update(score=_score, classes=_classes, divisions=DIVISIONS, package=_package, shade=_shade)
    made.tests["retracted"] = lambda row: row.entry.retraction is not None
    return made


def text_of(name: str) -> str:
    """A file of this folder."""
    return templates.text_of(__package__, name)


def _latest(boards: Sequence[SuiteBoard], count: int = 12) -> list[tuple[SuiteBoard, BoardRow]]:
    rows = [(board, row) for board in boards for row in board.rows if not row.is_source]
    return sorted(rows, key=lambda pair: (pair[1].entry.date, pair[1].id), reverse=True)[:count]


def _methods(boards: Sequence[SuiteBoard]) -> dict[str, list[tuple[SuiteBoard, BoardRow]]]:
    """The rows of each method, the newest first within a suite."""
    found: dict[str, list[tuple[SuiteBoard, BoardRow]]] = defaultdict(list)
    for board in boards:
        for row in sorted(board.rows, key=lambda row: (row.entry.date, row.id), reverse=True):
            found[row.method].append((board, row))
    return dict(found)


def _best(board: SuiteBoard) -> dict[str, float]:
    """The best score of each task, as printed, among what counts; '' is the average."""
    rows = [row for row in board.rows if not row.entry.retraction]
    best = {task: max((_score(row, task)[0].rank for row in rows), default=-math.inf) for task in board.tasks}
    return best | {"": max((row.row.average.rank for row in rows), default=-math.inf)}


def _score(row: BoardRow, task: str) -> tuple[Value, Interval | None]:
    return row.row.scores.get(task, (Value(), None))


def _span(intervals: Sequence[Interval | None]) -> tuple[float, float]:
    """The range that a column of intervals is drawn in."""
    known = [bound for interval in intervals if interval for bound in interval]
    return (min(known, default=0.0), max(known, default=100.0))


def _words_of(interval: Interval | None) -> str:
    return "–" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _bytes(size: int) -> str:
    return f"{size / 1000:,.0f} kB" if size < 10**6 else f"{size / 10**6:,.1f} MB"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _package(row: BoardRow) -> Package | None:
    return row.entry.package if isinstance(row.entry.package, Package) else None


def _shade(share: float) -> int:
    return round(SHADES * max(0.0, min(1.0, share)))


def _classes(row: BoardRow) -> dict[str, Any]:
    """Accuracy by class in percent: all classes by stream where they are few, else the worst and the best ten."""
    counts = row.row.classes
    size = max((len(shown) for _, shown in counts.values()), default=0)
    if size <= MOST_CLASSES:
        lines = [(name, [_share(r, n) for r, n in zip(*both, strict=True)]) for name, both in counts.items()]
        return {"few": True, "size": size, "lines": lines}
    right = [sum(both[0][i] for both in counts.values()) for i in range(size)]
    shown = [sum(both[1][i] for both in counts.values()) for i in range(size)]
    ranked = sorted((_share(right[i], shown[i]), i) for i in range(size) if shown[i])
    return {"few": False, "size": size, "worst": ranked[:10], "best": ranked[:-11:-1]}


def _share(right: int, shown: int) -> float:
    return 100 * right / shown if shown else math.nan
