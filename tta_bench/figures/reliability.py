"""`reliability`: accuracy against confidence; on the diagonal, a method is as often right as it is sure.

`risk`: errors among the surest images, against the share of images that are answered at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError
from tta_bench.figures import rows, style
from tta_bench.measure import confidence
from tta_bench.records.store import Store
from tta_bench.report.choose import Filter

RISK_POINTS = 200


@dataclass(frozen=True)
class Answers:
    """The confidences of a row on all its streams, and whether each was right."""

    label: str
    number: int  # of the row, which decides its looks
    confidence: NDArray[np.float32]
    correct: NDArray[np.bool_]


@dataclass(frozen=True)
class Sureness:
    answers: tuple[Answers, ...]
    caution: str
    notes: tuple[str, ...]


def data(folder: Path, methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Sureness:
    """All predictions of each row, streams and seeds together, on the tasks that all rows have done."""
    found, store = rows.read(folder, methods, where), Store.open(folder)
    numbers = {row.label: number for number, row in enumerate(found.rows)}
    found, fewer_tasks = rows.on_common_tasks(found)
    found, fewer_rows = rows.with_all_tasks(found)
    kept = []
    for row in found.rows:
        predictions = [store.predictions(record) for record in row.done]
        sure, right = (np.concatenate([getattr(p, key) for p in predictions]) for key in ("confidence", "correct"))
        kept.append(Answers(row.label, numbers[row.label], sure, right))
    if not kept:
        raise UserError(f"{folder}: no row has all its tasks done: run the same command again to finish them")
    return Sureness(tuple(kept), rows.caution(found), (*map(str, found.notes), *fewer_tasks, *fewer_rows))


def draw(found: Sureness) -> style.Figure:
    figure = style.new_figure(style.COLUMN, 3.4)
    axes = figure.subplots()
    axes.plot([0, 100], [0, 100], color="#999999", linewidth=0.8)
    for one in found.answers:
        sure, right, _ = confidence.reliability(one.confidence, one.correct)
        axes.plot(100 * sure, 100 * right, **style.look(one.number)._asdict(), label=one.label)
    axes.set(xlabel=f"confidence (%){found.caution}", ylabel="accuracy (%)", xlim=(0, 101), ylim=(0, 101))
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def draw_risk(found: Sureness) -> style.Figure:
    figure = style.new_figure(style.COLUMN, 2.8)
    axes = figure.subplots()
    for one in found.answers:
        risk = confidence.risk_coverage(one.confidence, one.correct)
        points = np.unique(np.linspace(0, len(risk) - 1, RISK_POINTS).astype(int))
        kept = points[(points + 1) / len(risk) >= 0.02]  # a share of very few images says nothing
        look = {**style.look(one.number)._asdict(), "markevery": max(1, len(kept) // 6)}
        axes.plot(100 * (kept + 1) / len(risk), 100 * risk[kept], **look, label=one.label)
    axes.set(xlabel=f"coverage (% of images answered){found.caution}", ylabel="errors among them (%)", xlim=(0, 101))
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside upper center", ncols=3)
    return figure
