"""The rows of each suite, ranked within their division, under names that files and links can have."""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tta_bench.board.site.gather import Run, RunRow
from tta_bench.board.submission import Entry, Package, Submission
from tta_bench.errors import UserError
from tta_bench.report.grouping import grouped
from tta_bench.suites.suite import library

DIVISIONS = ("closed", "open")


@dataclass(frozen=True)
class BoardRow:
    """One row of a suite's table."""

    id: str  # of its data file, and in links
    name: str  # as shown: the label, with the submission where two rows share it
    rank: int | None  # within its division; None for Source and what was retracted
    entry: Entry
    run: Run
    row: RunRow
    method: str  # file name of its method's page

    @property
    def is_source(self) -> bool:
        return self.row.is_source

    @property
    def division(self) -> str | None:
        """The division in which it competes."""
        return None if self.rank is None else self.entry.division

    @property
    def search(self) -> str:
        """What the filter looks through."""
        package = self.entry.package.name if isinstance(self.entry.package, Package) else "built-in"
        return f"{self.name} {self.entry.who.name} {package} {self.entry.title} {self.entry.id}".lower()


@dataclass(frozen=True)
class SuiteBoard:
    """All rows of one suite, best average first."""

    name: str
    slug: str
    about: str
    tasks: tuple[str, ...]
    rows: tuple[BoardRow, ...]

    @property
    def source(self) -> BoardRow | None:
        return next((row for row in self.rows if row.is_source), None)

    def division(self, name: str) -> list[BoardRow]:
        """The rows of a division, best first."""
        return [row for row in self.rows if row.entry.division == name]


def slug(text: str) -> str:
    """A file name for any text: readable, and unique by a digest where characters were lost."""
    safe = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-.")[:80]
    return safe if safe == text else f"{safe or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def suite_boards(submissions: Sequence[Submission], runs: Sequence[Run]) -> list[SuiteBoard]:
    """One for each suite, by name."""
    entries = {submission.id: submission.entry for submission in submissions}
    by_suite = grouped(runs, lambda run: run.suite)
    return [_board(name, by_suite[name], entries) for name in sorted(by_suite)]


def _board(suite: str, runs: Sequence[Run], entries: dict[str, Entry]) -> SuiteBoard:
    tasks = tuple(dict.fromkeys(task for run in runs for task in run.tasks))
    found = [(entries[run.id], run, row) for run in runs for row in run.rows if not row.is_source]
    found += _sources(runs, entries)
    labels = [row.label for _, _, row in found]
    places = ranks(
        [(None if row.is_source or entry.retraction else entry.division, row.average.rank) for entry, _, row in found]
    )
    rows = [
        BoardRow(
            id=slug(f"{run.id}--{row.label}"),
            name=row.label if labels.count(row.label) == 1 else f"{row.label} ({entry.id})",
            rank=rank,
            entry=entry,
            run=run,
            row=row,
            method=method_slug(entry, row),
        )
        for rank, (entry, run, row) in zip(places, found, strict=True)
    ]
    rows.sort(key=lambda row: (-row.row.average.rank, row.is_source, row.entry.date, row.id))
    return SuiteBoard(suite, slug(suite), _about(suite), tasks, tuple(rows))


def method_slug(entry: Entry, row: RunRow) -> str:
    """A method is known by its package and its name; two packages may use one name."""
    package = f"{entry.package.name}--" if isinstance(entry.package, Package) and not row.is_source else ""
    return slug(f"{package}{row.method}")


def _sources(runs: Sequence[Run], entries: dict[str, Entry]) -> list[tuple[Entry, Run, RunRow]]:
    """One Source row for each source model; `board check` holds that they agree."""
    found: dict[tuple[str, str, str], tuple[Entry, Run, RunRow]] = {}
    for run in sorted(runs, key=lambda run: (entries[run.id].retraction is not None, entries[run.id].division)):
        for row in run.rows:
            if row.is_source:
                name = (entries[run.id].division, str(row.conditions["weights"]), str(row.conditions["scenario"]))
                found.setdefault(name, (entries[run.id], run, row))
    weights = [str(row.conditions["weights"]) for entry, _, row in found.values() if entry.division == "closed"]
    return [
        one
        for (division, own, _), one in found.items()
        if division == "closed" or own not in weights  # an open entry on the suite's own model has the same Source
    ]


def ranks(scores: Sequence[tuple[str | None, float]]) -> list[int | None]:
    """1 + the better scores of the same division; None for what is in no division or has no score."""
    better: dict[str | None, list[float]] = defaultdict(list)
    for division, score in sorted(scores, key=lambda pair: -pair[1]):
        better[division].append(-score)
    return [
        None if division is None or score == -math.inf else 1 + bisect_left(better[division], -score)
        for division, score in scores
    ]


def _about(suite: str) -> str:
    try:
        return library().find(suite).about
    except UserError:  # of a package that is not installed here
        return ""
