"""Runs specs: finds each cell in the store, or runs and saves it. Several processes may share one folder."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tta_bench import settings
from tta_bench.data.images import sample_files
from tta_bench.errors import CellFailed, UserError
from tta_bench.files import now
from tta_bench.measure import environment
from tta_bench.models.precision import refuse_missing_bf16
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.registry import installed
from tta_bench.runs.bind import Binder, binder
from tta_bench.runs.known import Known
from tta_bench.runs.listing import Watcher, is_finished
from tta_bench.runs.prepared import Prepared
from tta_bench.runs.runner import Work, run_cell
from tta_bench.runs.session import Session
from tta_bench.runs.site import Site, refuse_unwritable_cache
from tta_bench.runs.spec import CellSpec

POLL = 0.5  # seconds between checks of cells that other processes run


@dataclass(frozen=True)
class Outcome:
    """A cell's record, and whether this process ran it."""

    record: Record
    is_new: bool


def run_spec(spec: CellSpec, site: Site, folder: Path, watcher: Watcher | None = None) -> Outcome | None:
    """Find a cell in a folder, or run it and save it; None while another process runs it."""
    store = Store.open(folder)
    binder(site).prepared = Prepared(store.prepared)
    return _find_or_run(spec, binder(site), store, Known(store.known, site), watcher or Watcher())


def run_left(specs: Sequence[CellSpec], place: Binder, store: Store, watcher: Watcher) -> dict[str, Record]:
    """Run every cell that is not in the store; returns records by the digest of their spec.

    Cells that other processes run are waited for at the end; those of a process that dies are taken over.
    """
    place.prepared = Prepared(store.prepared)
    known = Known(store.known, place.site)
    before = store.by_key()
    records: dict[str, Record] = {}
    waiting = list(specs)
    while waiting:
        elsewhere = []
        for spec in waiting:
            outcome = _find_or_run(spec, place, store, known, watcher, before)
            if outcome is None:
                elsewhere.append(spec)
                continue
            records[spec.digest] = outcome.record
            watcher.on_record(outcome.record, outcome.is_new)
        if len(elsewhere) == len(waiting):
            watcher.on_wait(len(elsewhere))
            time.sleep(POLL)
        waiting = elsewhere
    return records


def refuse_unfit(specs: Sequence[CellSpec], place: Binder) -> None:
    """Refuse wrong data, weights or settings before time is spent; lists all images and opens a sample."""
    if place.site.cache is not None:
        refuse_unwritable_cache(place.site.cache)
    if any(spec.amp for spec in specs):
        refuse_missing_bf16(place.device)
    streams = {(spec.tasks, spec.model, str(spec.data)): spec for spec in specs}
    for spec in streams.values():
        for task in spec.tasks:
            for severity in sorted(set(spec.protocol.severities), key=str):
                dataset = place.dataset(spec)  # before weights are loaded, which may need a download
                (dataset if severity is None else dataset.at_severity(severity)).inspect(task)
    rows = {(spec.label, spec.model): spec for spec in specs}
    for spec in rows.values():
        settings.check(spec.method, installed().load(spec.method), spec.settings)
    for spec in rows.values():
        Session(place.setup(spec), shares_weights=True)


def _find_or_run(
    spec: CellSpec,
    place: Binder,
    store: Store,
    known: Known,
    watcher: Watcher,
    before: dict[str, Record] | None = None,
) -> Outcome | None:
    work = place.bind(spec)
    known.add(spec, work.cell.key, work.source_images is not None, sample_files(work.stream.images))
    with store.claim(work.cell) as is_ours:
        record = store.find(work.cell)
        if record is not None and is_finished(record, store):
            return Outcome(record, is_new=False)
        if not is_ours:
            return None
        if record is not None and record.status == "done":
            store.set_cell_aside(work.cell)
            watcher.on_damage(spec)
        elif record is not None and before is not None and record != before.get(work.cell.key):
            return Outcome(record, is_new=False)  # it failed in another process meanwhile, as it would here
        watcher.on_start(spec, len(work.stream.order))
        record, predictions = _run(work, watcher)
        record = store.save(record, predictions)
    return Outcome(record, is_new=True)


def _run(work: Work, watcher: Watcher) -> tuple[Record, Predictions | None]:
    try:
        return run_cell(work, watcher.on_batch)
    except (Exception, SystemExit) as error:  # a method may raise anything; the other cells continue
        is_expected = isinstance(error, (CellFailed, UserError))
        line = " ".join(str(error).split()) or "no message"
        record = Record(
            cell=work.cell,
            label=work.label,
            status="failed",
            reason=line if is_expected else f"{type(error).__name__}: {line}",
            traceback="" if is_expected else traceback.format_exc(),
            environment=environment.describe(work.setup.device),
            finished_at=now(),
        )
        return record, None
