"""Rows of a run folder for figures, under the same rules of fairness as the tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tta_bench.errors import UserError, clean, require_known
from tta_bench.inspect.inspection import is_inspection
from tta_bench.report.choose import Filter, comparison
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.runs import Runs
from tta_bench.report.tables import per_seed
from tta_bench.report.values import Value, spread


def read(folder: Path, methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Comparison:
    """The rows of a run, or these, in this order."""
    if is_inspection(folder):
        raise UserError(f"{folder} is an inspection, and this figure needs a run's folder: tta-bench run makes one")
    found = comparison(Runs([folder]).records, where)
    found = replace(found, rows=tuple(replace(row, label=clean(row.label)) for row in found.rows))
    require_known(methods, [row.label for row in found.rows], f"{folder}: no row")
    rows = tuple(row for name in methods for row in found.rows if row.label == name)
    return replace(found, rows=rows or found.rows)


def on_common_tasks(found: Comparison) -> tuple[Comparison, list[str]]:
    """The rows on the tasks that every seed of every row has done, and a note if these are not all.

    Ignores rows without a finished cell. Unchanged if the others have no task in common.
    """
    begun = [row for row in found.rows if row.done]
    common = [task for task in found.tasks if all(_has_done(row, task) for row in begun)]
    if not common or len(common) == len(found.tasks):
        return found, []
    kept = [Row(r.label, tuple(x for x in r.done if set(x.cell.spec.averaged) <= set(common))) for r in found.rows]
    if any(row.done and not less.records for row, less in zip(found.rows, kept, strict=True)):
        return found, []
    note = f"Only the {len(common)} of {len(found.tasks)} tasks that all rows have done: {', '.join(common)}"
    return replace(found, tasks=tuple(common), rows=tuple(kept)), [note]


def with_all_tasks(found: Comparison) -> tuple[Comparison, list[str]]:
    """The rows that have done every task with each of their seeds, and a note for each other row."""
    kept = tuple(row for row in found.rows if row.done and all(_has_done(row, task) for task in found.tasks))
    notes = [f"Left out: {row.label}, not all of its tasks are done" for row in found.rows if row not in kept]
    return replace(found, rows=kept), notes


def _has_done(row: Row, task: str) -> bool:
    """Whether every seed of a row has finished a task."""
    seeds = {record.cell.spec.seed for record in row.done if task in record.cell.spec.tasks}
    return {record.cell.spec.seed for record in row.records} == seeds


def average(row: Row, tasks: Sequence[str]) -> Value:
    """The mean accuracy in percent over all tasks, then over seeds; only if every seed has every task.

    Scaled after the mean, unlike the tables': the last bit would change the bytes of an SVG.
    """
    return spread([100 * statistics.fmean(scores) for scores in per_seed(row, tasks)])


def caution(found: Comparison) -> str:
    """What a reader of the figure must know, for an axis label."""
    return "" if found.limit is None else f"\nof the first {found.limit} images"
