"""What the site needs of each submission's run: read once, recomputed from predictions, then the run is let go."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.board.submission import MOST_RUN, Submission
from tta_bench.errors import UserError
from tta_bench.notes import Note
from tta_bench.packed.unpack import unpack_run
from tta_bench.records.record import Record
from tta_bench.report.choose import comparison
from tta_bench.report.column import Column
from tta_bench.report.columns import columns_at
from tta_bench.report.costs import TIMES, contradiction_note
from tta_bench.report.differences import make_stream
from tta_bench.report.metrics import with_metrics
from tta_bench.report.page import view
from tta_bench.report.page.data import Interval, Line, gather
from tta_bench.report.runs import Outline, Runs
from tta_bench.report.tables import accuracy_table
from tta_bench.report.values import Value
from tta_bench.report.visits import of_tasks

FEW = 16  # submissions that are read faster here than by starting processes
SMALL = 10**7  # bytes of a packed run
MEMORY = Path("/dev/shm")
ENVIRONMENT = ("device_name", "threads", "python", "system", "platform", "torch")  # what the site shows of it


@dataclass(frozen=True)
class Stream:
    """A task and a seed in one order; the same for all rows of a suite."""

    name: str
    seed: int
    order: str  # digest of the image ids
    images: str  # streams of the same name show the same image at the same index
    samples: int
    truth: str  # digest of index and label

    @property
    def key(self) -> tuple[str, int, str]:
        return self.name, self.seed, self.order


@dataclass(frozen=True)
class Played:
    """What a row made of a stream."""

    stream: Stream
    batch_size: int
    bits: bytes  # whether each prediction was right, in stream order
    predictions: str  # digest of the file of predictions


@dataclass(frozen=True)
class RunRow:
    """One row of a submission, as plain values."""

    label: str
    method: str
    settings: dict[str, Any]
    conditions: dict[str, Any]  # model, weights, batch size and the like
    environment: dict[str, str]
    average: Value
    interval: Interval | None
    scores: dict[str, tuple[Value, Interval | None]]  # by task
    costs: dict[str, Value]  # by the columns' titles
    more: dict[str, str]
    streams: tuple[Played, ...]
    classes: dict[str, tuple[list[int], list[int]]]  # by stream: right answers and images of each class, all seeds

    @property
    def is_source(self) -> bool:
        return self.method == "source"


@dataclass(frozen=True)
class Run:
    """A submission's run."""

    id: str
    suite: str
    tasks: tuple[str, ...]
    rows: tuple[RunRow, ...]
    notes: tuple[Note, ...]
    digest: str  # of run.zip
    size: int


def gather_runs(submissions: Sequence[Submission], metrics: Sequence[str] = ()) -> list[Run]:
    """Each submission's run, in the given order; many of them by several processes."""
    if len(submissions) <= FEW:
        return [gather_run(submission, metrics) for submission in submissions]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return list(pool.map(partial(gather_run, metrics=metrics), submissions, chunksize=8))


def gather_run(submission: Submission, metrics: Sequence[str] = ()) -> Run:
    """Read one packed run; scores are recomputed from its predictions, and digests checked."""
    try:
        with tempfile.TemporaryDirectory(prefix="tta-bench-board-", dir=_scratch(submission.run)) as home:
            folder = Path(home) / "run"
            unpack_run(submission.run, folder, MOST_RUN)
            return _read(submission, Runs([folder]), metrics)
    except UserError as error:
        raise UserError(f"{submission.run}: {error} (`tta-bench board check {submission.folder}` says more)") from error


def _scratch(run: Path) -> Path | None:
    """Where to unpack: in memory where the system offers that and the run is small, else in the usual place.

    Making many small files on a disk takes as long as reading them.
    """
    small = run.stat().st_size < SMALL and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 100 * SMALL
    return MEMORY if small else None


def order_of(submission: Submission, stream: Stream) -> NDArray[np.int32]:
    """Which image each sample of a stream is."""
    cells = ((record, record.cell) for record in submission.records)
    record = next(record for record, cell in cells if (cell.name, cell.spec.seed, cell.found.stream) == stream.key)
    found = submission.store.predictions(record)
    return found.index[of_tasks(found, record)]


def _read(submission: Submission, runs: Runs, metrics: Sequence[str]) -> Run:
    shown = with_metrics(comparison(runs.records), runs, metrics)
    lines = gather(shown, accuracy_table(shown), runs.outline)
    columns, wrong = [*columns_at("board", shown), *columns_at("cost")], contradiction_note(shown)
    if wrong:  # something else used the machine: no time of this run can be compared
        lines = tuple(replace(line, costs=_timeless(line.costs, columns)) for line in lines)
    content = submission.run.read_bytes()
    return Run(
        submission.id,
        shown.suite,
        shown.tasks,
        tuple(_row(line, shown.tasks, runs, columns) for line in lines),
        (*runs.warnings(), *shown.notes, *wrong),
        hashlib.sha256(content).hexdigest(),
        len(content),
    )


def _timeless(costs: dict[str, Value], columns: Sequence[Column]) -> dict[str, Value]:
    """Costs without times."""
    times = {column.title for column in columns if column.key in TIMES}
    return {title: value for title, value in costs.items() if title not in times}


def _row(line: Line, tasks: Sequence[str], runs: Runs, columns: Sequence[Column]) -> RunRow:
    cell, environment = line.row.first.cell, view.environment(line.row.done)
    seen = [(record, runs.outline(record.cell)) for record in line.row.done]
    return RunRow(
        label=line.row.label,
        method=cell.spec.method,
        settings=cell.own_settings,
        conditions={
            "model": cell.spec.model,
            "weights": cell.found.weights,
            "batch size": cell.spec.batch_size,
            "scenario": cell.conditions.scenario,
            "device": cell.found.device,
            "precision": cell.spec.amp or "float32",
            "code of the method": cell.found.method_code,
            "tta-bench": cell.found.harness,
        },
        environment={name: environment[name] for name in ENVIRONMENT if name in environment},
        average=line.scores[-1],
        interval=line.intervals[-1],
        scores={task: (line.scores[i], line.intervals[i]) for i, task in enumerate(tasks)},
        costs={column.title: line.costs.get(column.title, Value()) for column in columns},
        more={name: str(value) for name, value in line.more.items()},
        streams=tuple(_played(*pair) for pair in seen),
        classes=_classes(seen),
    )


def _played(record: Record, seen: Outline) -> Played:
    cell = record.cell
    truth = hashlib.sha256(seen.index.tobytes() + seen.label.tobytes()).hexdigest()
    images = make_stream(cell, seen.correct, seen.correct, seen.index).images
    stream = Stream(cell.name, cell.spec.seed, cell.found.stream, images, len(seen.index), truth)
    return Played(stream, cell.spec.batch_size, np.packbits(seen.correct).tobytes(), record.predictions)


def _classes(played: Sequence[tuple[Record, Outline]]) -> dict[str, tuple[list[int], list[int]]]:
    count = 1 + max((int(seen.label.max(initial=0)) for _, seen in played), default=0)
    found: dict[str, NDArray[np.int64]] = {}
    for record, seen in played:
        right, shown = np.bincount(seen.label[seen.correct], minlength=count), np.bincount(seen.label, minlength=count)
        found[record.cell.name] = found.get(record.cell.name, 0) + np.stack([right, shown])
    return {name: (both[0].tolist(), both[1].tolist()) for name, both in found.items()}


def streams_of(runs: Sequence[Run]) -> Iterator[tuple[Run, Stream]]:
    """Every stream of these runs with the first run that has it; the same order with other images is refused."""
    seen: dict[tuple[str, int, str], tuple[Run, Stream]] = {}
    for run in runs:
        for row in run.rows:
            for played in row.streams:
                first, known = seen.setdefault(played.stream.key, (run, played.stream))
                if known != played.stream:
                    raise UserError(
                        f"{run.id} and {first.id}: their images or labels of {known.name}, seed {known.seed} differ: "
                        f"check both with `tta-bench board check`"
                    )
    yield from seen.values()
