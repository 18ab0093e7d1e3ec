"""Runs specs: finds each cell in the store, or runs and saves it. Several processes may share one folder."""

from __future__ import annotations

import hashlib
import json
import math
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tta_bench.errors import CellFailed, RunStopped, UserError, reason
from tta_bench.files import now
from tta_bench.isolation.host import OnBatch, Work, adapt_here, ignore, run_cell
from tta_bench.isolation.pool import PATIENCE, WorkerDied
from tta_bench.isolation.prepared import Prepared
from tta_bench.measure import environment
from tta_bench.papers.baseline import BASELINE
from tta_bench.records.cell import Cell
from tta_bench.records.conditions import Conditions
from tta_bench.records.locks import Try
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import HERE, WORKER, Measured, Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.registry import installed
from tta_bench.runs.alarms import Alarms
from tta_bench.runs.bind import Binder
from tta_bench.runs.key_cache import KeyCache
from tta_bench.runs.resume import damage, is_finished
from tta_bench.runs.site import Site
from tta_bench.runs.watcher import Watcher

LEAST_LIMIT = 600.0  # seconds that every cell may take by default
POLL = 0.5  # seconds between checks of cells that other processes run


def run_left(specs: Sequence[CellSpec], binder: Binder, store: Store, watcher: Watcher) -> dict[str, Record]:
    """Run every cell that is not in the store; returns records by the digest of their spec.

    Cells that other processes run are waited for at the end; those of a process that dies are taken over.
    """
    cells = Cells(binder, store, watcher)
    records: dict[str, Record] = {}
    waiting = list(specs)
    while waiting:
        elsewhere = []
        for spec in waiting:
            record = cells.find_or_run(spec)
            if record is None:
                elsewhere.append(spec)
            else:
                records[spec.digest] = record
        if len(elsewhere) == len(waiting):
            watcher.on_wait(len(elsewhere))
            time.sleep(POLL)
        waiting = elsewhere
    return records


def _learned(store: Store, site: Site) -> Path:
    """Where what methods learn from source images is kept: with --cache for all runs that have these packages."""
    if site.cache is None:
        return store.prepared
    packages = json.dumps(environment.versions(), sort_keys=True)
    return site.cache / "prepared" / hashlib.sha256(packages.encode()).hexdigest()[:16]


class Cells:
    """The cells of one folder, run on one site."""

    def __init__(self, binder: Binder, store: Store, watcher: Watcher, who: Try | None = None) -> None:
        """A worker says `who` it is: the cells that it starts are noted."""
        self._binder, self._store, self._watcher, self._who = binder, store, watcher, who
        self._keys = KeyCache(store.keys, binder.site)
        self._before = store.by_key()
        self._source_seconds = SourceSeconds(self._before.values())
        self._alarms = Alarms(store, watcher)
        self._prepared = Prepared(_learned(store, binder.site))

    def find_or_run(self, spec: CellSpec, require: Callable[[Cell], None] = lambda cell: None) -> Record | None:
        """Find a cell, or run and save it; the watcher hears which. None while another process runs it.

        `require` may refuse what was bound.
        """
        work = replace(self._binder.bind(spec, self._watcher.on_cache), prepared=self._prepared)
        require(work.cell)
        self._keys.add(spec, work)
        with self._store.claim(work.cell) as is_ours:
            record = self._find(work.cell, is_ours)
            is_new = record is None and is_ours
            if is_new:
                if self._who:
                    self._store.note_try(work.cell.identity, self._who)
                self._watcher.on_start(spec, len(work.stream.order))
                record = self._store.save(*self._run(work))
                self._source_seconds.add(record)
        if record is not None:
            self._watcher.on_record(record, is_new)
        return record

    def _find(self, cell: Cell, is_ours: bool) -> Record | None:
        """A cell's record, unless the cell should run: again if its predictions are damaged, or it failed before."""
        record = self._store.find(cell)
        if record is None or is_finished(record, self._store):
            return record
        if is_ours and record.status == "done":
            wrong, moved = damage(record, self._store), self._store.set_cell_aside(cell)
            self._watcher.on_warning(f"{wrong}: moved it to {moved[0].parent}, running its cell again")
        elif is_ours and record != self._before.get(cell.key):
            return record  # it failed in another process meanwhile, as it would here
        return None

    def _run(self, work: Work) -> tuple[Record, Predictions | None]:
        alarm = self._alarms.of(work)
        try:
            limit = self._binder.site.time_limit or self._source_seconds.limit(work.cell)
            found = run_at(work, self._binder, alarm.on_batch, limit)
        except RunStopped:  # not the method's fault, so this cell has not failed
            raise
        except (Exception, SystemExit) as error:  # a method may raise anything; the other cells continue
            if error is alarm.raised:
                raise
            is_expected = isinstance(error, (CellFailed, UserError))
            record = Record(
                cell=work.cell,
                status="failed",
                reason=reason(error),
                traceback=getattr(error, "traceback", "") if is_expected else traceback.format_exc(),
                measured=Measured(environment=environment.of_failure(work.setup.device)),
                finished_at=now(),
            )
            return record, None
        alarm.end()
        return found


class SourceSeconds:
    """How long Source took on each stream: a fair measure for the longest time that any method may take."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._seconds: dict[Conditions, float] = {}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Take note of a record, if it is Source's."""
        if record.cell.spec.method == BASELINE and record.status == "done":
            self._seconds[record.cell.conditions] = record.measured.seconds["adapt"] + record.measured.seconds["load"]

    def limit(self, cell: Cell) -> float | None:
        """Seconds that a cell may take; None if Source has not run on its stream."""
        seconds = self._seconds.get(cell.conditions)
        if seconds is None:
            return None
        return max(LEAST_LIMIT, installed().load(cell.spec.method).slower_than_source * seconds)


def run_at(
    work: Work, binder: Binder, on_batch: OnBatch = ignore, time_limit: float | None = None
) -> tuple[Record, Predictions]:
    """Run a cell in a worker process. A cell whose process dies gets a second one.

    A class that exists in this process only, as one from a notebook, runs here.
    """
    is_here = binder.site.in_process or work.setup.method in installed().given
    # A limit that was asked for holds for each batch, too; a batch may always take its share of the cell's limit.
    batches = max(1, math.ceil(len(work.stream.order) / work.setup.batch_size))
    patience = max(PATIENCE, binder.site.time_limit or 0, (time_limit or 0) / batches)
    adapt = adapt_here if is_here else partial(binder.workers.adapt, time_limit=time_limit, patience=patience)
    try:
        record, predictions = run_cell(work, on_batch, adapt)
    except WorkerDied:  # once may be the machine's fault: another program took the memory
        record, predictions = run_cell(work, on_batch, adapt)
    process = HERE if is_here else WORKER  # noted in the record: only a worker has no labels
    measured = replace(record.measured, environment={**record.measured.environment, "process": process})
    return replace(record, measured=measured), predictions
