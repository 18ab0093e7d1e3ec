"""The leaderboard: every number in tidy CSV, and a ranking. Same records, same bytes: they diff well in git."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tta_bench.errors import UserError
from tta_bench.notes import Note, info
from tta_bench.report.column import Context, Line, entries
from tta_bench.report.columns import columns_at
from tta_bench.report.differences import make_stream
from tta_bench.report.grouping import grouped
from tta_bench.report.render import csv_lines
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.runs import Runs
from tta_bench.report.stats import Blocks, estimate, holm
from tta_bench.report.tables import average, scoring_columns, scoring_note
from tta_bench.report.values import NONE, Table, Value

ALPHA = 0.05
CLOSE_NOTE = info("≈: not distinguishable from the best (paired, all tasks together, block bootstrap, Holm).")


def tidy_csv(comparison: Comparison) -> str:
    """One line per row, task and seed, sorted by label, order of tasks and seed; accuracies are fractions."""
    order = {task: place for place, task in enumerate(comparison.tasks)}
    columns = columns_at("csv", comparison)
    lines = [
        ((row.label, order.get(task, len(order)), record.cell.spec.seed), Line(row.label, task, record))
        for row in comparison.rows
        for record in row.records
        for task in record.cell.spec.tasks
    ]
    lines.sort(key=lambda pair: pair[0])
    texts = [[column.text(column.of_line(line)) for column in columns] for _, line in lines]
    return csv_lines([[column.key for column in columns], *texts])


@dataclass(frozen=True)
class Close:
    """Labels of rows that are not distinguishable from the best, and notes about them."""

    labels: frozenset[str] = frozenset()
    notes: tuple[Note, ...] = ()


NO_MARKS = Close()


def close_to_best(comparison: Comparison, runs: Runs) -> Close:
    """Which rows are not distinguishable from the best; without predictions a note says why that is not known."""
    scored = [row for row, value in _ranked(comparison) if value.is_number]
    if len(scored) < 2:
        return Close()
    best, *others = scored
    streams = {record.cell.conditions.key for record in best.done}
    apart = [row.label for row in others if streams.isdisjoint(record.cell.conditions.key for record in row.done)]
    notes = [info(f"Not compared with the best, which has other streams: {', '.join(apart)}.")] if apart else []
    try:
        return Close(frozenset(not_distinguishable(scored, runs)), (CLOSE_NOTE, *notes))
    except UserError as error:
        return Close(notes=(info(f"Which rows are not distinguishable from the best is not known: {error}"),))


def _ranked(comparison: Comparison) -> list[tuple[Row, Value]]:
    """Rows with their averages, best first."""
    found = [(row, average(row, comparison.tasks)) for row in comparison.rows]
    return sorted(found, key=lambda pair: (-pair[1].rank, pair[0].label))


def ranking(comparison: Comparison, close: Close = NO_MARKS) -> Table:
    """Rows by their average, best first; those not distinguishable from the best are marked."""
    ranked = _ranked(comparison)
    more, context = [*scoring_columns(comparison), *columns_at("ranking", comparison)], Context(comparison)
    about = info(f"Average over {len(comparison.tasks)} tasks. {scoring_note(comparison)}")
    rows = []
    for row, value in ranked:
        place = 1 + sum(other.rank > value.rank for _, other in ranked)
        rank = f"{place}{'≈' if row.label in close.labels else ''}" if value.is_number else NONE
        rows.append((row.label, (Value(word=rank), value, *entries(more, row, context))))
    columns = ("rank", "Avg.", *(column.head for column in more))
    return Table(f"{comparison.caption}: leaderboard", columns, tuple(rows), (*comparison.notes, about, *close.notes))


def not_distinguishable(rows: Sequence[Row], runs: Runs) -> set[str]:
    """Labels of rows whose mean difference from the first, over all streams that both have, may be chance."""
    done = [(row.label, record) for row in rows for record in row.done]
    blocks: dict[str, list[Blocks]] = defaultdict(list)
    best = rows[0].label
    for records in grouped(done, lambda pair: pair[1].cell.conditions.key).values():
        correct = {label: runs.correct(record.cell) for label, record in records}
        if best in correct:
            for label, record in records:
                if label != best:
                    index = runs.index(record.cell)
                    blocks[label].append(Blocks(make_stream(record.cell, correct[label], correct[best], index)))
    p = {label: estimate(streams, replicates=0).p for label, streams in blocks.items()}
    return {label for label, adjusted in zip(p, holm(list(p.values())), strict=True) if adjusted >= ALPHA}
