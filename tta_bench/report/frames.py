"""Runs as pandas frames, for a notebook: `tta_bench.frame`, `tta_bench.predictions`. Needs neither torch nor the data.

Rows carry the labels of the tables, and records that a report leaves out as outdated are left out here as well: a mean
over a frame is the mean of the table.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.report import choose
from tta_bench.report.fair import table_of
from tta_bench.report.rows import Comparison, compare
from tta_bench.report.runs import Runs

if TYPE_CHECKING:
    import pandas as pd

Folder = str | os.PathLike[str]

WHOLE_NUMBERS = ("severity", "resets", "limit", "threads")  # where one may be missing, pandas makes them 5.0
# Columns of an image, and what `Predictions` calls them: a frame's own `index` is another.
IMAGE = {
    "image": "index",
    "label": "label",
    "prediction": "prediction",
    "correct": "correct",
    "in_top5": "in_top5",
    "confidence": "confidence",
    "entropy": "entropy",
}


def frame(folder: Folder, *more: Folder, **where: object) -> pd.DataFrame:
    """The cells of run folders, one row per cell and task; `accuracy` and `top5` in percent, `ece` in [0, 1].

    All scenarios, limits, batch sizes and models are in it, each told by its column. A failed cell has its `status`
    and `reason`, and no numbers. Of a stream over several tasks only `accuracy` is the task's own: `top5` and `ece`
    are missing, costs are those of the whole stream, once per task (`drop_duplicates("cell")` before a sum).
    `where` chooses, with the keys of `tta-bench report --where` and one value or several: `frame("run", limit=None)`.
    `frame.attrs["notes"]` holds what a report would say of these records.
    """
    import pandas as pd

    runs = _open(folder, *more)
    wanted = {id(record) for record in choose.wished(runs.records, _wishes(where))}
    found = _comparisons(runs, wanted)
    lines = [
        _line(row.label, task, record)
        for comparison in found
        for row in comparison.rows
        for record in row.records
        if id(record) in wanted
        for task in record.cell.tasks
    ]
    made: pd.DataFrame = pd.DataFrame(lines).astype(dict.fromkeys(WHOLE_NUMBERS, "Int64"))
    made["finished_at"] = pd.to_datetime(made["finished_at"], utc=True)
    notes = [*runs.warnings(), *(note for comparison in found for note in comparison.notes)]
    made.attrs["notes"] = list(dict.fromkeys(notes))
    return made


def predictions(folder: Folder, *more: Folder, **where: object) -> pd.DataFrame:
    """What finished cells predicted, one row per image in the order of the stream.

    `where` says which cells to read, with the keys of `tta-bench report --where` and one value or several:
    `predictions("run", task="fog", method=["source", "sar"])`. `image` is the image's place in its task, the same for
    every method; `cell` is that of `frame`. A stream over several tasks or severities counts `image` through all of
    them, and its `task` is missing: records do not keep which image is of which.
    """
    import numpy as np
    import pandas as pd

    runs = _open(folder, *more)
    wanted = {id(record) for record in choose.wished(runs.records, _wishes(where))}
    cells = [
        (row.label, record)
        for comparison in _comparisons(runs, wanted)
        for row in comparison.rows
        for record in row.done
        if id(record) in wanted
    ]
    if not cells:
        raise UserError("no cell of these is done, so nothing is predicted: run the same command again")
    found = [runs.predictions(record.cell) for _, record in cells]
    lengths = [len(one.index) for one in found]
    who = pd.DataFrame([_who(label, record) for label, record in cells])
    who = who.astype(dict.fromkeys(who.columns.drop("seed"), "category"))  # one word for each of millions of images
    batches = [np.arange(length) // record.cell.batch_size for length, (_, record) in zip(lengths, cells, strict=True)]
    arrays = {name: np.concatenate([getattr(one, attribute) for one in found]) for name, attribute in IMAGE.items()}
    who = who.loc[who.index.repeat(lengths)].reset_index(drop=True)
    made: pd.DataFrame = who.assign(batch=np.concatenate(batches), **arrays)
    return made


def _open(*folders: Folder) -> Runs:
    runs = Runs([Path(folder) for folder in folders])
    if not runs.records:
        raise UserError(f"{folders[0]}: no records: run `tta-bench run` first")
    return runs


def _comparisons(runs: Runs, wanted: Collection[int]) -> list[Comparison]:
    """Every fair comparison that holds a wanted record, whole, so that labels are those of the tables.

    A report shows one of each table, a frame has room for all.
    """
    groups: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    for record in runs.records:
        cell = record.cell
        groups[table_of(cell), cell.scenario, cell.limit, cell.batch_size, cell.device, cell.model].append(record)
    return [compare(records) for records in groups.values() if any(id(record) in wanted for record in records)]


def _wishes(where: dict[str, object]) -> list[choose.Wish]:
    wishes = []
    for key, value in where.items():
        values: Sequence[object] = value if isinstance(value, list | tuple) else [value]
        wishes += [choose.parse(f"{key}={'none' if one is None else one}") for one in values]
    return wishes


def _line(label: str, task: str, record: Record) -> dict[str, Any]:
    cell, there = record.cell, record.environment
    return {
        "suite": cell.suite,
        "scenario": cell.scenario,
        "task": task,
        "severity": None if cell.scenario == "gradual" else cell.data.get("severity"),  # that one rises and falls
        "seed": cell.seed,
        "method": label,
        **_measured(task, record),
        "scored": record.score_point or None,
        "needs_source": record.needs_source if record.status == "done" else None,
        "status": record.status,
        "reason": record.reason,
        "plugin": cell.method,
        "settings": cell.own_settings,
        "model": cell.model,
        "weights": cell.weights,
        "batch_size": cell.batch_size,
        "limit": cell.limit,
        "amp": cell.amp,
        "compile": cell.compile,
        "device": cell.device,
        "device_name": there.get("device_name"),
        "threads": there.get("threads"),
        "tta_bench": cell.harness,
        "commit": there.get("commit"),
        "finished_at": record.finished_at or None,
        "cell": cell.slug,
    }


def _measured(task: str, record: Record) -> dict[str, float | None]:
    """The numbers of a cell, under the names that the leaderboard's CSV has for them; a failed cell has none."""
    done, images = record.status == "done", max(record.samples, 1)
    alone = done and len(record.cell.tasks) == 1
    return {
        "accuracy": 100 * record.task_top1.get(task, math.nan) if done else math.nan,
        "top5": 100 * record.top5 if alone else math.nan,
        "ece": record.ece if alone else math.nan,
        "images": record.samples,
        "seconds": record.seconds["adapt"] if done else math.nan,
        "prepare_seconds": record.seconds["prepare"] if done else math.nan,
        "ms_per_image": record.steady_ms_per_image if done else math.nan,
        "forwards_per_image": record.sample_forwards / images if done else math.nan,
        "backwards_per_image": record.sample_backwards / images if done else math.nan,
        "resets": record.resets if done else None,
        "peak_mib": record.memory["bytes"] / 2**20 if done and "bytes" in record.memory else math.nan,
    }


def _who(label: str, record: Record) -> dict[str, Any]:
    cell = record.cell
    return {
        "suite": cell.suite,
        "scenario": cell.scenario,
        "task": cell.tasks[0] if len(cell.tasks) == 1 else None,
        "seed": cell.seed,
        "method": label,
        "cell": cell.slug,
    }
