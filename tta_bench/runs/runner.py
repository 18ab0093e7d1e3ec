"""Runs one cell: a method adapts, here or in a worker process, and its answers are scored."""

from __future__ import annotations

from collections.abc import Callable

from tta_bench.files import now
from tta_bench.measure.metrics import scores_of
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Measured, Record
from tta_bench.runs.adaptation import adapt
from tta_bench.runs.host import OnBatch, Work, WorkHost, ignore

Adapt = Callable[[WorkHost], Measured]


def adapt_here(host: WorkHost) -> Measured:
    """Adapt in this process."""
    return adapt(host.work.setup, host)


def run_cell(work: Work, on_batch: OnBatch = ignore, adapt: Adapt = adapt_here) -> tuple[Record, Predictions]:
    """Run a cell. Exceptions of the method are passed on; bad logits raise CellFailed."""
    host = WorkHost(work, on_batch)
    measured = adapt(host)
    predictions = host.scores.predictions(work.stream)
    record = Record(
        cell=work.cell,
        status="done",
        scores=scores_of(predictions, work.cell.spec.tasks),
        measured=measured,
        finished_at=now(),
    )
    return record, predictions
