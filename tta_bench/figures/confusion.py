"""`confusion`: which classes a row takes for which, over all its tasks and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError, require_known
from tta_bench.figures import rows, style
from tta_bench.records.store import Store
from tta_bench.report.choose import Filter

MOST = 3  # rows in one figure
FEW = 20  # classes whose numbers are written on the axes


@dataclass(frozen=True)
class Confusions:
    """For each row, how often each class (first axis) was answered by each class, in percent of the class."""

    shares: dict[str, NDArray[np.float64]]
    caution: str
    notes: tuple[str, ...]


def data(
    folder: Path, methods: Sequence[str] = (), tasks: Sequence[str] = (), where: Sequence[Filter] = ()
) -> Confusions:
    """The answers of these rows, or of the first three, on these tasks, or on those that all of the rows have done."""
    found, store = rows.read(folder, methods, where), Store.open(folder)
    require_known(tasks, found.tasks, f"{folder}: no task")
    notes = list(map(str, found.notes))
    if not methods and len(found.rows) > MOST:
        notes.append(f"Only the first {MOST} of {len(found.rows)} rows: choose others with --methods")
        found = replace(found, rows=found.rows[:MOST])
    found, fewer_tasks = (replace(found, tasks=tuple(tasks)), []) if tasks else rows.on_common_tasks(found)
    found, fewer_rows = rows.with_all_tasks(found)
    pairs: dict[str, list[NDArray[np.int32]]] = {}
    for row in found.rows:
        for record in row.done:
            own = list(dict.fromkeys(record.cell.spec.tasks))
            answers = store.predictions(record)
            wanted = np.isin(answers.task, [own.index(task) for task in found.tasks if task in own])
            pairs.setdefault(row.label, []).append(np.stack([answers.label, answers.prediction])[:, wanted])
    joined = {label: np.concatenate(parts, axis=1) for label, parts in pairs.items()}
    size = 1 + max((int(both.max(initial=-1)) for both in joined.values()), default=-1)
    if not size:
        raise UserError(f"{folder}: no row has all of these tasks done: run the same command again to finish them")
    shares = {label: _shares(both, size) for label, both in joined.items()}
    return Confusions(shares, rows.caution(found), (*notes, *fewer_tasks, *fewer_rows))


def _shares(both: NDArray[np.int32], size: int) -> NDArray[np.float64]:
    label, prediction = both.astype(np.int64)
    counts = np.bincount(size * label + prediction, minlength=size * size).reshape(size, size)
    shares: NDArray[np.float64] = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
    return shares


def draw(found: Confusions) -> style.Figure:
    figure = style.new_figure(min(style.PAGE, 2.3 * len(found.shares) + 0.7), 2.6)
    axes = figure.subplots(1, len(found.shares), squeeze=False, sharey=True)[0]
    for place, (label, shares) in zip(axes, found.shares.items(), strict=True):
        shown = place.imshow(shares, vmin=0, vmax=100, cmap="Blues", interpolation="nearest")
        place.grid(visible=False)
        place.set(title=label, xlabel=f"answer{found.caution}")
        if len(shares) <= FEW:
            place.set(xticks=range(len(shares)), yticks=range(len(shares)))
    axes[0].set_ylabel("class")
    figure.colorbar(shown, ax=axes, label="% of the class", shrink=0.9)
    return figure
