"""Two rows of a table compared: where and by how much one is better, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError, did_you_mean
from tta_bench.measure.student import sign_test
from tta_bench.notes import Note, info, warning
from tta_bench.records.cell import Cell
from tta_bench.records.record import Record
from tta_bench.report import names
from tta_bench.report.costs import paired
from tta_bench.report.grouping import grouped
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.runs import Runs
from tta_bench.report.stats import Blocks, Estimate, Stream, estimate, holm, images_won
from tta_bench.report.values import Table, Value

ALPHA = 0.05
BETTER, WORSE, EVEN = "better", "worse", "even"


@dataclass(frozen=True)
class TaskDifference:
    """The two rows on one task. All accuracies are fractions."""

    task: str
    a: float
    b: float
    estimate: Estimate
    only_b: int  # images that b gets right more often
    only_a: int
    p: float  # McNemar's, exact and two-sided: are the images that only one gets right split evenly?
    holm: float  # the same, adjusted for the number of tasks

    @property
    def verdict(self) -> str:
        """Better or worse (b than a) only where the test over images and the interval over batches agree."""
        if self.holm >= ALPHA or self.estimate.low <= 0 <= self.estimate.high:
            return EVEN
        return BETTER if self.estimate.difference > 0 else WORSE


@dataclass(frozen=True)
class Difference:
    """b against a: task by task, and the mean over tasks."""

    a: str
    b: str
    tasks: tuple[TaskDifference, ...]
    overall: Estimate
    notes: tuple[Note, ...]

    def count(self, verdict: str) -> int:
        return sum(task.verdict == verdict for task in self.tasks)


def find_row(comparison: Comparison, name: str) -> Row:
    """The row with this label; else the only one of this method, as in `tent (lr=0.1)`, or with this prefix."""
    rows = {row.label: row for row in comparison.rows}
    own = [label for label in rows if label.startswith(f"{name} (")]
    alike = [name] if name in rows else own or [label for label in rows if label.startswith(name)]
    if len(alike) == 1:
        return rows[alike[0]]
    if alike:
        found = ", ".join(f"'{label}'" for label in alike)
        raise UserError(f"'{name}' may be any of {len(alike)} rows of {comparison.suite}: name one of {found}")
    if name in comparison.elsewhere:
        raise UserError(
            f"no row '{name}' in this group of {comparison.suite} (rows: {', '.join(rows)}): "
            f"another group, not comparable with this one, has it: add {comparison.elsewhere[name]}"
        )
    raise UserError(f"no row '{name}' in {comparison.suite}{did_you_mean(name, rows)}")


def two_rows(comparison: Comparison, a: str, b: str) -> tuple[Row, Row]:
    first, second = find_row(comparison, a), find_row(comparison, b)
    if first.label == second.label:
        raise UserError(f"--a and --b are both '{first.label}': name two rows")
    return first, second


def difference(comparison: Comparison, a: str, b: str, runs: Runs) -> Difference:
    """Compare two rows on the streams that both have finished."""
    first, second = two_rows(comparison, a, b)
    a, b = first.label, second.label
    found = [(one, other, _stream(one, other, runs)) for one, other in paired(first.done, second.done)]
    if not found:
        raise UserError(f"'{a}' and '{b}' have no samples in common: run them on the same tasks and seeds")
    order = {name: i for i, name in enumerate(comparison.tasks)}
    accuracies = [(_accuracy(one, runs), _accuracy(other, runs), stream) for one, other, stream in found]
    made = of_streams(a, b, accuracies, _notes(comparison, first, second, len(found)))
    return replace(made, tasks=tuple(sorted(made.tasks, key=lambda task: order.get(task.task, len(order)))))


def of_streams(a: str, b: str, found: Sequence[tuple[float, float, Stream]], notes: Sequence[Note] = ()) -> Difference:
    """Compare two rows, given the accuracies of both on each stream."""
    blocks = [Blocks(stream) for _, _, stream in found]
    tasks = grouped((stream for _, _, stream in found), lambda stream: stream.task)
    won = {task: images_won(streams) for task, streams in tasks.items()}
    p = {task: sign_test(*counts) for task, counts in won.items()}
    adjusted = dict(zip(p, holm(list(p.values())), strict=True))
    done = [
        TaskDifference(
            task,
            a=float(np.mean([one for one, _, stream in found if stream.task == task])),
            b=float(np.mean([other for _, other, stream in found if stream.task == task])),
            estimate=estimate([own for own in blocks if own.stream.task == task]),
            only_b=won[task][0],
            only_a=won[task][1],
            p=p[task],
            holm=adjusted[task],
        )
        for task in tasks
    ]
    return Difference(a, b, tuple(done), estimate(blocks), tuple(notes))


def make_stream(cell: Cell, a: NDArray[np.bool_], b: NDArray[np.bool_], index: NDArray[np.int32]) -> Stream:
    _, _, target = cell.name.partition("-to-")  # transfers to the same domain show the same images
    change = b.astype(np.int8) - a.astype(np.int8)
    return Stream(cell.name, f"{cell.spec.suite} {target}", cell.spec.seed, change, index, cell.spec.batch_size)


def _stream(one: Record, other: Record, runs: Runs) -> Stream:
    return make_stream(one.cell, runs.correct(one.cell), runs.correct(other.cell), runs.index(one.cell))


def _accuracy(record: Record, runs: Runs) -> float:
    return float(runs.correct(record.cell).mean())


def _notes(comparison: Comparison, first: Row, second: Row, shared: int) -> list[Note]:
    notes = list(comparison.notes)
    for row in (first, second):
        failed = len(row.records) - len(row.done)
        lone = len(row.done) - shared
        if failed or lone:
            notes.append(warning(f"left out of {row.label}: {failed} failed cells, {lone} that the other row lacks."))
    if first.first.measured.score_point != second.first.measured.score_point:
        points = f"{first.label} {first.first.measured.score_point}, {second.label} {second.first.measured.score_point}"
        notes.append(warning(f"scored at different points: {points}."))
    return notes


def table(found: Difference, suite: str) -> Table:
    """The difference as a table, in percent."""
    shown = names.columns([task.task for task in found.tasks])
    rows = [
        (
            name,
            (
                Value(100 * task.a),
                Value(100 * task.b),
                *_interval(task.estimate),
                Value(task.only_a, digits=0),
                Value(task.only_b, digits=0),
                Value(word=probability(task.p)),
                Value(word=probability(task.holm)),
                Value(word=task.verdict),
            ),
        )
        for name, task in zip(shown, found.tasks, strict=True)
    ]
    sides = [task.a for task in found.tasks], [task.b for task in found.tasks]
    means = [Value(100 * float(np.mean(side))) for side in sides]
    rows.append(("Avg.", (*means, *_interval(found.overall), *[Value()] * 5)))
    columns = (found.a, found.b, "difference", "95 % low", "high", "only a", "only b", "McNemar p", "Holm p", "b is")
    return Table(
        f"{suite}: {found.b} (b) against {found.a} (a), accuracy (%)",
        columns,
        tuple(rows),
        (
            *found.notes,
            info("Intervals: block bootstrap over batches. only a, only b: images that one gets right more often."),
            info("b is better or worse where Holm p < 0.05 and the interval leaves out 0."),
            *names.legend([task.task for task in found.tasks]),
        ),
        head="task",
    )


def _interval(found: Estimate) -> tuple[Value, ...]:
    return tuple(Value(100 * v, digits=2, signed=True) for v in (found.difference, found.low, found.high))


def probability(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def sentence(found: Difference) -> str:
    """The outcome in words."""
    e, tasks = found.overall, len(found.tasks)
    where = f"on average over {tasks} tasks" if tasks > 1 else f"on {found.tasks[0].task}"
    span = f"95 % interval {100 * e.low:+.2f} to {100 * e.high:+.2f} points"
    if e.low <= 0 <= e.high:
        says = f"No clear difference between {found.b} and {found.a} {where}: {100 * e.difference:+.2f} points ({span})"
    else:
        word = "more" if e.difference > 0 else "less"
        says = f"{found.b} is {100 * abs(e.difference):.2f} points {word} accurate than {found.a} {where} ({span})"
    if tasks == 1:
        return f"{says}."
    counts = (
        f"better on {found.count(BETTER)}, worse on {found.count(WORSE)}, no clear difference on {found.count(EVEN)}"
    )
    return f"{says}; after Holm's correction it is {counts}."
