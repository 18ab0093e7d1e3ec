"""The tables of a comparison: records in, plain tables out."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tta_bench.notes import Level, Note, info, warning
from tta_bench.papers.baseline import own_table
from tta_bench.records.record import Record
from tta_bench.report import names, open_set, orders, streams, stress
from tta_bench.report.column import Column, Context, Place, entries
from tta_bench.report.columns import columns_at
from tta_bench.report.comparable import shipped_suite
from tta_bench.report.costs import time_notes
from tta_bench.report.rows import Comparison, Row, differing
from tta_bench.report.runs import Runs
from tta_bench.report.values import FAILED, MISSING, NONE, Table, Value, mark_best, spread

SCORING_NOTE = (
    "scored: the weights that a prediction is taken with; fwd, bwd: passes per image inside `adapt`; "
    "src: needs source images."
)
CLEAN_NOTE = " clean: accuracy on the clean images beside the tasks, which are not in Avg."
SEEN_NOTE = " seen %: batches that it adapted to; the others were only predicted."


def layout(comparison: Comparison) -> dict[str, Table]:
    """The tables of a comparison under their file names, the most important first.

    A suite whose rows have labels of their own compares variants; a suite for a paper's time table compares times.
    """
    accuracy, cost = {"accuracy": accuracy_table(comparison)}, {"time": time_table(comparison)}
    if open_set.are_open(comparison):
        accuracy["open"] = open_table(comparison)
    if any(_is_variant(row.first) for row in comparison.rows):
        return {"ablation": ablation_table(comparison)} | accuracy | cost
    table = own_table(shipped_suite(comparison.records[0].cell))
    return cost | accuracy if table and table.minutes else accuracy | cost


def _is_variant(record: Record) -> bool:
    """Whether a row has a label of its own; one changed by `--set` is still called by its method."""
    return record.label != record.cell.spec.method and not record.label.startswith(f"{record.cell.spec.method} (")


def scoring_columns(comparison: Comparison) -> list[Column]:
    """How rows were scored; how much a method saw only where some method may have missed batches."""
    return [*columns_at("scoring", comparison), *(columns_at("live") if is_live(comparison) else [])]


def scoring_note(comparison: Comparison) -> Note:
    clean = CLEAN_NOTE * any(map(streams.has_clean, comparison.records))
    return info(f"{SCORING_NOTE}{SEEN_NOTE * is_live(comparison)}{clean}")


def is_live(comparison: Comparison) -> bool:
    return any(record.measured.adapted_batches is not None for record in comparison.records)


def accuracy_table(comparison: Comparison) -> Table:
    """Top-1 accuracy in percent: methods by tasks, the average over tasks, and how it was scored."""
    tasks, more, context = comparison.tasks, scoring_columns(comparison), Context(comparison)
    rows = [
        (row.label, (*(over_seeds(row, task) for task in tasks), average(row, tasks), *entries(more, row, context)))
        for row in comparison.rows
    ]
    columns = (*names.columns(tasks), "Avg.", *(column.head for column in more))
    own = (
        _seed_note(comparison),
        scoring_note(comparison),
        *_failures(comparison),
        *_remarks(comparison),
        *_starts(comparison),
        *_resets(comparison),
    )
    notes = (*comparison.notes, *own, *names.legend(tasks))
    return Table(f"{comparison.caption}: accuracy (%)", columns, mark_best(rows, len(tasks) + 1), notes)


def ablation_table(comparison: Comparison) -> Table:
    """Variants as rows: the average over tasks, and the settings that make each variant."""
    rows, more, context = [], scoring_columns(comparison), Context(comparison)
    for row in comparison.rows:
        cell = row.first.cell
        twins = [other.first.cell for other in comparison.rows if other.first.cell.spec.method == cell.spec.method]
        settings = ", ".join(differing(cell, twins))
        variant = f"{cell.spec.method}: {settings}" if settings else cell.spec.method
        rows.append((row.label, (average(row, comparison.tasks), *entries(more, row, context), Value(word=variant))))
    notes = (*comparison.notes, _seed_note(comparison), scoring_note(comparison))
    title = f"{comparison.caption}: average accuracy (%) over {len(comparison.tasks)} tasks"
    return Table(title, ("Avg.", *(column.head for column in more), "variant"), mark_best(rows, 1), notes)


def by_average(table: Table) -> Table:
    """The same table, best average first."""
    column = table.columns.index("Avg.")
    return replace(table, rows=tuple(sorted(table.rows, key=lambda row: -row[1][column].rank)))


def time_table(comparison: Comparison) -> Table:
    """What each method costs: time inside `adapt`, exact counts of passes, peak memory."""
    return _of_columns("time", "time and cost", Context(comparison), time_notes(comparison))


def stress_table(comparison: Comparison, runs: Runs) -> Table:
    """What averages hide, averaged over the streams of each row."""
    notes = (*comparison.notes, *map(info, stress.NOTES))
    return _of_columns("stress", "under stress", Context(comparison, runs), notes)


def orders_table(comparison: Comparison) -> Table:
    """One line per row; numbers only where it is done in every order, since a missing one may be the worst."""
    notes = (*comparison.notes, info(orders.NOTE))
    return _of_columns("orders", f"{orders.count(comparison)} orders", Context(comparison), notes, failed=NONE)


def open_table(comparison: Comparison) -> Table:
    """How well unknown classes are detected, averaged over tasks and seeds."""
    notes = (*comparison.notes, *map(info, open_set.NOTES))
    return _of_columns("open", "unknown classes", Context(comparison), notes)


def streams_table(comparison: Comparison, runs: Runs) -> dict[str, Table]:
    """What composed streams are asked besides accuracy, in the columns that some row has; empty for other streams."""
    if not streams.are_composed(comparison):
        return {}
    notes = (*comparison.notes, *map(info, streams.notes(comparison)))
    table = _of_columns("streams", "streams", Context(comparison, runs), notes)
    shown = [
        i for i in range(len(table.columns)) if any(str(values[i]) not in (NONE, FAILED) for _, values in table.rows)
    ]
    rows = tuple((label, tuple(values[i] for i in shown)) for label, values in table.rows)
    return {"streams": replace(table, columns=tuple(table.columns[i] for i in shown), rows=rows)}


def _of_columns(place: Place, title: str, context: Context, notes: tuple[Note, ...], failed: str = FAILED) -> Table:
    comparison = context.comparison
    columns = columns_at(place, comparison)
    rows = tuple((row.label, entries(columns, row, context, failed)) for row in comparison.rows)
    return Table(f"{comparison.caption}: {title}", tuple(column.title for column in columns), rows, notes)


def over_seeds(row: Row, task: str) -> Value:
    """Accuracy: mean and sample standard deviation over seeds; one failed seed fails the entry."""
    records = row.by_task.get(task, [])
    if any(record.status != "done" for record in records):
        return Value(word=FAILED)
    scores = [100 * record.scores.task_top1[task] for record in records if task in record.scores.task_top1]
    return spread(scores) if scores else Value(word=MISSING)


def average(row: Row, tasks: Sequence[str]) -> Value:
    """The mean over tasks for each seed, then over seeds; only where no seed lacks a task."""
    return spread([statistics.fmean(100 * top1 for top1 in scores) for scores in per_seed(row, tasks)])


def per_seed(row: Row, tasks: Sequence[str]) -> list[list[float]]:
    """The accuracies of all tasks for each seed, as fractions; empty where a seed lacks a task."""
    found = [list(scores.values()) for scores in orders.by_seed(row).values()]
    return [] if any(len(scores) < len(tasks) for scores in found) else found


def _seed_note(comparison: Comparison) -> Note:
    seeds = sorted({record.cell.spec.seed for record in comparison.records})
    if len(seeds) == 1:
        return info(f"Seed {seeds[0]}.")
    return info(f"Mean ± standard deviation over seeds {', '.join(map(str, seeds))}.")


def _failures(comparison: Comparison) -> list[Note]:
    return [
        Note(Level.FAILED, f"{row.label} on {record.cell.name}, seed {record.cell.spec.seed}: {record.reason}")
        for row in comparison.rows
        for record in row.records
        if record.status != "done"
    ]


def _remarks(comparison: Comparison) -> list[Note]:
    """What methods did besides adapting, each once."""
    found = {f"{row.label}: {remark}." for row in comparison.rows for r in row.done for remark in r.measured.remarks}
    return [warning(text) for text in sorted(found)]


def _starts(comparison: Comparison) -> list[Note]:
    """Rows that answer unlike Source before their first update; rows that do so alike share a note."""
    found: dict[tuple[int, int, int], list[str]] = defaultdict(list)
    for row in comparison.rows:
        compared = [
            r for r in row.done if r.measured.score_point == "pre-update" and r.measured.start_changed is not None
        ]
        changed = sum(record.measured.start_changed or 0 for record in compared)
        images = sum(min(record.cell.spec.batch_size, record.scores.samples) for record in compared)
        if changed:
            found[changed, images, len(compared)].append(row.label)
    return [
        info(
            f"{', '.join(labels)}: before {'its' if len(labels) == 1 else 'their'} first update, {changed:,} of "
            f"{images:,} answers differ from Source's (first batches of {streams} stream{'s' * (streams > 1)})."
        )
        for (changed, images, streams), labels in found.items()
    ]


def _resets(comparison: Comparison) -> list[Note]:
    counts = {row.label: sum(record.measured.resets for record in row.records) for row in comparison.rows}
    resets = [f"{label} {count}" for label, count in counts.items() if count]
    text = f"Resets to the source weights by the method itself: {', '.join(resets)}."
    return [info(text)] if resets else []
