"""Runs as pandas frames, for a notebook: `tta_bench.frame`, `tta_bench.predictions`. Needs neither torch nor the data.

Rows carry the labels of the tables, and records that a report leaves out as outdated are left out here as well: a mean
over a frame is the mean of the table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from tta_bench.errors import UserError
from tta_bench.notes import Note
from tta_bench.packed.address import Address
from tta_bench.records.record import Record
from tta_bench.report import choose
from tta_bench.report.column import Column, Line, at
from tta_bench.report.columns import COLUMNS
from tta_bench.report.grouping import grouped
from tta_bench.report.metrics import metric_columns
from tta_bench.report.rows import Comparison, by_table, compare
from tta_bench.report.runs import Runs

if TYPE_CHECKING:
    import pandas as pd

Cell = tuple[str, Record]  # a record and its row's label

WHOLE_NUMBERS = ("severity", "images", "resets", "limit", "threads")  # where one may be missing, pandas makes them 5.0
WHO = ("suite", "scenario", "task", "seed", "method", "cell")  # columns of `frame` that `predictions` has, too
# Columns of an image, and what `Predictions` calls them: a frame's own `index` is another.
IMAGE = {
    "image": "index",
    "label": "label",
    "prediction": "prediction",
    "correct": "correct",
    "in_top5": "in_top5",
    "confidence": "confidence",
    "entropy": "entropy",
    "brier": "brier",
}


def frame(folder: Address, *more: Address, metrics: Sequence[str] = (), **where: object) -> pd.DataFrame:
    """The cells of runs, one row per cell and task; `accuracy` and `top5` in percent, `ece` in [0, 1].

    A run is a folder, a packed file or the web address of one.

    All scenarios, limits, batch sizes, stream speeds and models are in it, each with its column; `seen` is the share of
    batches that a method adapted to, in percent. A failed cell has its `status` and `reason`, and no numbers. Of a
    stream over several tasks only `accuracy` is the task's own: `top5` and `ece` are missing, costs are those of the
    whole stream, once per task (`drop_duplicates("cell")` before a sum).
    `where` chooses, with the keys of `tta-bench report --where` and one value or several: `frame("run", limit=None)`.
    `metrics` adds a column for each of these installed metrics (`tta-bench list metrics`).
    `frame.attrs["notes"]` holds the notes that a report would print.
    """
    runs = _open(folder, *more)
    cells, notes = labelled(runs, _filters(where))
    columns, problems = metric_columns(metrics, [record for _, record in cells], runs)
    return cells_frame(cells, [*notes, *problems], columns)


def predictions(folder: Address, *more: Address, **where: object) -> pd.DataFrame:
    """What finished cells predicted, one row per image in the order of the stream.

    `where` says which cells to read, with the keys of `tta-bench report --where` and one value or several:
    `predictions("run", task="fog", method=["source", "sar"])`. `image` is the image's place in its task, the same for
    every method; `cell` is that of `frame`. A stream over several tasks or severities counts `image` through all of
    them; `task` is the image's own.
    """
    runs = _open(folder, *more)
    cells, _ = labelled(runs, _filters(where))
    made = predictions_frame(cells, runs)
    if made is None:
        raise UserError("none of these cells is done, so there are no predictions: run the same command again")
    return made


def labelled(runs: Runs, filters: Sequence[choose.Filter]) -> tuple[list[Cell], list[Note]]:
    """Every matching record that counts, with its row's label, and the notes that a report would print."""
    wanted = {id(record) for record in choose.matching(runs.records, filters)}
    found = _comparisons(runs, wanted)
    rows = [row for comparison in found for row in comparison.rows]
    notes = [*runs.warnings(), *runs.chosen(), *(note for comparison in found for note in comparison.notes)]
    cells = [(row.label, record) for row in rows for record in row.records if id(record) in wanted]
    return cells, list(dict.fromkeys(notes))


def cells_frame(cells: Sequence[Cell], notes: Sequence[Note], columns: Sequence[Column] = ()) -> pd.DataFrame:
    """`frame` of these cells."""
    import pandas as pd

    lines = [line(label, task, record, columns) for label, record in cells for task in record.cell.spec.tasks]
    made: pd.DataFrame = pd.DataFrame(lines).astype(dict.fromkeys(WHOLE_NUMBERS, "Int64"))
    made["finished_at"] = pd.to_datetime(made["finished_at"], utc=True)
    made.attrs["notes"] = list(map(str, notes))
    return made


def predictions_frame(cells: Sequence[Cell], runs: Runs) -> pd.DataFrame | None:
    """`predictions` of these cells; None if none of them is done."""
    import numpy as np
    import pandas as pd

    cells = [(label, record) for label, record in cells if record.status == "done"]
    if not cells:
        return None
    found = [runs.predictions(record.cell) for _, record in cells]
    lengths = [len(one.index) for one in found]
    lines = [line(label, record.cell.spec.tasks[0], record) for label, record in cells]
    who = pd.DataFrame(lines, columns=list(WHO))
    who = who.astype(dict.fromkeys(who.columns.drop("seed"), "category"))  # millions of images share few words
    sizes = [record.cell.spec.batch_size for _, record in cells]
    batches = [one.places // size for one, size in zip(found, sizes, strict=True)]
    arrays = {name: np.concatenate([getattr(one, attribute) for one in found]) for name, attribute in IMAGE.items()}
    who = who.loc[who.index.repeat(lengths)].reset_index(drop=True)
    names = sorted({task for _, record in cells for task in record.cell.spec.tasks})
    tasks = [[names.index(task) for task in dict.fromkeys(record.cell.spec.tasks)] for _, record in cells]
    codes = [np.array(own)[one.task] for own, one in zip(tasks, found, strict=True)]
    who["task"] = pd.Categorical.from_codes(np.concatenate(codes), names)  # type: ignore[call-overload]
    made: pd.DataFrame = who.assign(batch=np.concatenate(batches), **arrays)
    return made


def _open(*folders: Address) -> Runs:
    runs = Runs(folders)
    if not runs.records:
        raise UserError(f"{folders[0]}: no records: run `tta-bench run` first")
    return runs


def _comparisons(runs: Runs, wanted: Collection[int]) -> list[Comparison]:
    """Every fair comparison that holds a wanted record, whole, so that labels are those of the tables.

    A report shows one group of each table, a frame has room for all. Each record is in one of them.
    """
    found, placed = [], set[int]()
    for records in by_table(runs.records).values():
        for group in sorted(choose.groups(records), key=lambda group: group.limit is not None):
            own = [record for record in group.records if id(record) not in placed]
            placed |= {id(record) for record in own}
            by_model = grouped(own, lambda record: record.cell.spec.model)
            found += [compare(those) for those in by_model.values() if any(id(one) in wanted for one in those)]
    return found


def _filters(where: dict[str, object]) -> list[choose.Filter]:
    found = []
    for key, value in where.items():
        values: Sequence[object] = value if isinstance(value, list | tuple) else [value]
        found += [choose.parse(f"{key}={'none' if one is None else one}") for one in values]
    return found


def line(label: str, task: str, record: Record, columns: Sequence[Column] = ()) -> dict[str, Any]:
    """One row of `frame`; `columns` are those of metrics."""
    there = Line(label, task, record)
    shown = [column for column in at("frame", (*COLUMNS, *columns)) if column.only is None or column.only(record)]
    return {column.key: column.of_line(there) for column in shown}
