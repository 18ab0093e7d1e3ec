"""`reliability`: accuracy against confidence; on the diagonal, a method is as often right as it is sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError
from tta_bench.figures import rows, style
from tta_bench.measure import confidence
from tta_bench.records.store import Store
from tta_bench.report.choose import Filter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    """All predictions of each row, streams and seeds together."""
    found, store = rows.read(folder, methods, where), Store.open(folder)
    kept = []
    for number, row in enumerate(found.rows):
        predictions = [store.predictions(record) for record in row.done]
        if predictions:
            sure = np.concatenate([one.confidence for one in predictions])
            kept.append(Answers(row.label, number, sure, np.concatenate([one.correct for one in predictions])))
    if not kept:
        raise UserError(f"{folder}: no row has a finished stream: run the same command again")
    return Sureness(tuple(kept), rows.caution(found), tuple(map(str, found.notes)))


def draw(found: Sureness) -> Figure:
    figure = style.new_figure(style.COLUMN, 3.4)
    axes = figure.subplots()
    axes.plot([0, 100], [0, 100], color="#999999", linewidth=0.8)
    for one in found.answers:
        sure, right, _ = confidence.reliability(one.confidence, one.correct)
        axes.plot(100 * sure, 100 * right, **style.look(one.number)._asdict(), label=one.label)
    axes.set(xlabel=f"confidence (%){found.caution}", ylabel="accuracy (%)", xlim=(0, 101), ylim=(0, 101))
    figure.legend(loc="outside upper center", ncols=3)
    return figure
