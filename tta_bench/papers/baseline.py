"""Which suite answers which table, and what the unadapted model should score on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tta_bench.papers.paper import Paper, PaperTable, Published, load
from tta_bench.records.spec import BASELINE as BASELINE
from tta_bench.suites import suite as suites
from tta_bench.suites.suite import Suite

SIGMAS, SLACK = 4.0, 0.01  # by which it may differ from a published accuracy by chance


def own_paper(suite: Suite | None) -> Paper | None:
    """The paper that a suite reproduces."""
    return load(suite.paper) if suite and suite.paper else None


def own_table(suite: Suite | None) -> PaperTable | None:
    """The one table of its own paper that a suite answers."""
    paper = own_paper(suite)
    return _only_table(paper, suite.name) if paper and suite else None


def _only_table(paper: Paper, suite: str) -> PaperTable | None:
    tables = paper.tables_of([suite])
    return tables[0] if len(tables) == 1 else None


def shipped_suite(name: str, kind: object, tasks: tuple[str, ...]) -> Suite | None:
    """The suite of this name if it ships with tta-bench; a user's own suite of the same name is another."""
    if name not in suites.names():
        return None
    found = suites.load(name)
    return found if found.data.get("kind") == kind and set(tasks) <= set(found.tasks) else None


def is_anothers(name: str, kind: object, tasks: tuple[str, ...]) -> bool:
    """Whether a suite shares only its name with a packaged suite: published numbers do not apply to it."""
    return name in suites.names() and shipped_suite(name, kind, tasks) is None


def other_weights(table: PaperTable, model: str) -> str:
    """Why numbers of a model must not be compared with a table's; empty if they may."""
    return f"other weights: {model}, the paper's are {table.model}" if table.model and model != table.model else ""


@dataclass(frozen=True)
class SourceRow:
    """What a paper prints for the unadapted model on one task."""

    published: Published
    table: PaperTable

    def likely_cause(self, measured: float, mean: Sequence[float]) -> str:
        """Why the unadapted model may score `measured` (a fraction) instead; `mean` is subtracted from its images."""
        if 100 * measured > self.published.accuracy:
            return self.table.source_above
        if self.table.mean and tuple(mean) != self.table.mean:
            ours, theirs = (", ".join(f"{value:g}" for value in values) for values in (mean, self.table.mean))
            return f"normalisation? The paper's images have mean {theirs}, this model uses mean {ours}"
        return self.table.source_below


def source_row(paper: str, suite: str, task: str) -> SourceRow | None:
    """The published row of the unadapted model for a suite's task, if the paper has one."""
    published = load(paper)
    table = _only_table(published, suite)
    if table is None:
        return None
    entry = published.tables[table.source_table or table.name].accuracies.get((BASELINE, task))
    return SourceRow(entry, table) if entry else None


def judge(task: str, hits: int, images: int, row: SourceRow, mean: tuple[float, ...]) -> str | None:
    """Compare with the published accuracy; a difference beyond chance gets a sentence with its likely cause."""
    measured, expected = hits / images, row.published.accuracy / 100
    if may_be_chance(measured, expected, images):
        return None
    return (
        f"Source scores {100 * measured:.1f} % on the first {images} images of {task}, "
        f"the paper reports {100 * expected:.1f} %: {row.likely_cause(measured, mean)}"
    )


def may_be_chance(measured: float, expected: float, images: int) -> bool:
    """Whether the accuracy on a sample of this many images may differ so much from that on all of them."""
    return abs(measured - expected) <= SIGMAS * math.sqrt(expected * (1 - expected) / images) + SLACK
