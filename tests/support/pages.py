"""Pages for tests, made from records that never ran, and a reader of their markup."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np

from tests.support.records import changed, make_record, predict
from tta_bench.notes import Level, Note
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.report.leaderboard import NO_MARKS, Close
from tta_bench.report.names import SHORT
from tta_bench.report.page import page
from tta_bench.report.paper import paper_table
from tta_bench.report.rows import compare

EVIL = "<script>alert(1)</script>"
TASKS = list(SHORT)[:15]
LONG = "method-k (augmentations=32, learning_rate=0.00025, momentum=0.9, reset_threshold=0.2)"
METHODS = ["source", *(f"method-{letter}" for letter in "abcdefghij"), LONG]


def predictions(correct: Any, index: Any = None) -> Predictions:
    return predict(correct, index=index)


def stream(record: Record) -> Predictions:
    """A hundred predictions that fit the record's accuracy."""
    return predictions(np.random.default_rng(0).permutation(100) < 100 * record.scores.top1)


def made(records: list[Record], title: str = "a run", warnings: tuple[str, ...] = (), close: Close = NO_MARKS) -> str:
    by_cell = {record.cell.key: record for record in records}
    comparison = compare(records)
    notes = [Note(Level.WARNING, text) for text in warnings]
    comparison = replace(comparison, notes=(*notes, *comparison.notes))
    return page(comparison, lambda cell: stream(by_cell[cell.key]), title, close, paper_table(comparison))


def data(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    assert not set("<>&") & set(found[1])
    return dict(json.loads(found[1]))


class Reader(HTMLParser):
    """The elements of a page and its text, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def large_page() -> str:
    """12 methods x 15 tasks x 3 seeds."""
    rng = np.random.default_rng(0)
    right = {}
    records = []
    for task in TASKS:
        for number, method in enumerate(METHODS):
            for seed in range(3):
                correct = rng.random(3000) < 0.4 + 0.04 * number + 0.1 * rng.random()
                record = make_record(method, float(correct.mean()), ms=1 + number, task=task, seed=seed)
                records.append(changed(record, samples=3000))
                right[record.cell.key] = predictions(correct, rng.permutation(3000))
    return page(compare(records), lambda cell: right[cell.key], "12 x 15 x 3")
