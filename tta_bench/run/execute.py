"""Carries out a plan: cells not yet in the store run, one after the other; records come out."""

from __future__ import annotations

import traceback
from dataclasses import replace

from tta_bench.errors import CellFailed, UserError
from tta_bench.files import now
from tta_bench.measure import environment
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.run.plan import Plan
from tta_bench.run.runner import OnBatch, Work, run_cell


class Watcher:
    """Is told how a run goes on."""

    def on_start(self, work: Work) -> None:
        """A cell begins."""

    def on_cache(self, name: str, done: int, total: int) -> None:
        """So many images of a task have been decoded into the cache, which its first reader fills."""

    def on_batch(self, images: int, accuracy: float) -> None:
        """The cell has done so many images, with this accuracy so far."""

    def on_damage(self, work: Work) -> None:
        """A cell was finished, but its predictions are gone: it runs again."""

    def on_record(self, record: Record, is_new: bool) -> None:
        """A cell has ended, or was found in the store."""


def execute(plan: Plan, store: Store, watcher: Watcher) -> list[Record]:
    """Run every cell that the store does not have yet, and return the records of all cells of the plan."""
    records = []
    plan.on_cache = watcher.on_cache
    for work in plan.work():
        record = store.find(work.cell)
        finished = record is not None and record.status == "done"
        damaged = finished and not store.has_predictions(work.cell)
        is_new = damaged or not finished
        if damaged:
            watcher.on_damage(work)
        if is_new:
            watcher.on_start(work)
            record = _run_and_save(work, store, watcher.on_batch)
        assert record is not None
        record = replace(record, label=work.label)
        watcher.on_record(record, is_new)
        records.append(record)
    return records


def _run_and_save(work: Work, store: Store, on_batch: OnBatch) -> Record:
    try:
        record, predictions = run_cell(work, on_batch)
    except (Exception, SystemExit) as error:  # a method may raise anything; the other cells go on
        told = isinstance(error, (CellFailed, UserError))
        line = " ".join(str(error).split()) or "no message"
        record = Record(
            cell=work.cell,
            label=work.label,
            status="failed",
            reason=line if told else f"{type(error).__name__}: {line}",
            traceback="" if told else traceback.format_exc(),
            environment=environment.describe(work.device),
            finished_at=now(),
        )
        store.save(record, None)
        return record
    store.save(record, predictions)
    return record
