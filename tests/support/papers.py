"""Records of shipped suites, which papers have numbers for, and rows of their tables."""

from __future__ import annotations

from typing import Any

from tests.support.records import changed, make_record
from tta_bench.records.record import Record
from tta_bench.report.values import Table
from tta_bench.static_facts import published_settings
from tta_bench.suites import suite


def shipped(method: str, name: str = "imagenet-c-5", top1: float = 0.6, **changes: Any) -> list[Record]:
    """A finished row of a shipped suite, as that suite would run it."""
    found = suite.load(name)
    label = changes.pop("label", method)
    given = {k: v for k, v in found.methods.get(label, {}).items() if k != "method"}
    content = {
        "suite": name,
        "data": found.data,
        "model": found.model,
        "batch_size": found.batch_size,
        "settings": {**published_settings(method), **given},
        **changes,
    }
    return [changed(make_record(method, top1, task=task, **content), label=label) for task in found.tasks]


def row(table: Table | None, label: str) -> dict[str, str]:
    assert table is not None
    return dict(zip(table.columns, map(str, dict(table.rows)[label]), strict=True))
