"""The numbers of one record on one task, under the names that the leaderboard's CSV and the pandas frames share."""

from __future__ import annotations

import math
from typing import NamedTuple

from tta_bench.records.record import Record


class Measured(NamedTuple):
    """Accuracies are fractions in [0, 1]; NaN where there is no number: a failed cell has none.

    A stream over several tasks has top5, ece and costs for all of them together only.
    """

    accuracy: float
    top5: float
    ece: float
    seconds: float
    prepare_seconds: float
    ms_per_image: float
    forwards_per_image: float
    backwards_per_image: float
    peak_mib: float


NOTHING = Measured(*[math.nan] * len(Measured._fields))


def measured(record: Record, task: str) -> Measured:
    if record.status != "done":
        return NOTHING
    images, alone = max(record.scores.samples, 1), len(record.cell.spec.tasks) == 1
    return Measured(
        accuracy=record.scores.task_top1.get(task, math.nan),
        top5=record.scores.top5 if alone else math.nan,
        ece=record.scores.ece if alone else math.nan,
        seconds=record.measured.seconds["adapt"],
        prepare_seconds=record.measured.seconds["prepare"],
        ms_per_image=record.steady_ms_per_image,
        forwards_per_image=record.measured.sample_forwards / images,
        backwards_per_image=record.measured.sample_backwards / images,
        peak_mib=record.measured.memory["bytes"] / 2**20 if "bytes" in record.measured.memory else math.nan,
    )
