"""Verifies run folders: recomputes everything that can be recomputed without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from tta_bench.errors import UserError
from tta_bench.measure.verified import verified
from tta_bench.packed.address import Address, run_folder
from tta_bench.records.reading import read_record
from tta_bench.records.record import WORKER, OtherSchema, Record
from tta_bench.records.store import Store
from tta_bench.report.current import is_ahead
from tta_bench.streams.scenarios import protocol
from tta_bench.verify import reference, streams, tables
from tta_bench.verify.findings import Audit

Found = tuple[Record, Store]


def verify(addresses: Sequence[Address], root: Path | None = None) -> tuple[Audit, list[Found]]:
    """Check all records of run folders; returns the findings, and the records whose files are intact.

    A damaged file is a finding; the others are still checked.
    """
    audit = Audit()
    folders = {folder.resolve(): folder for folder in map(run_folder, addresses)}  # each once
    stores = [_open(folder, audit) for folder in folders.values()]
    found = [pair for store in stores for pair in _read(store, audit)]
    if not found and not audit.failures:
        raise UserError(f"{', '.join(map(str, addresses))}: no records: run `tta-bench run` first")
    intact = []
    found.sort(key=lambda pair: pair[0].cell.found.stream)  # records of one stream share its order
    for record, store in found:
        if _check(record, store, root, audit):
            intact.append((record, store))
    _check_once(found, audit)
    for store in stores:
        tables.check(store, audit)
    return audit, intact


def _open(folder: Path, audit: Audit) -> Store:
    store = Store(folder)
    if not store.manifest.is_file():
        Store.open(folder)  # raises: this is not a run folder
    try:
        store.read_manifest()
        store.past_commands()
        store.warnings()
    except UserError as error:
        audit.fails("files", str(folder), str(error))
    return store


def _read(store: Store, audit: Audit) -> list[Found]:
    found = []
    for path in store.record_files():
        try:
            found.append((read_record(path), store))
        except OtherSchema as error:
            audit.unknown("files", str(path), error.said)
        except UserError as error:
            audit.fails("files", str(path), _without(path, error))
    return found


def _check(record: Record, store: Store, root: Path | None, audit: Audit) -> bool:
    """Check one cell; whether its files are intact."""
    cell, where = record.cell, str(store.prediction_file(record.cell).with_suffix(".json"))
    reference.check_suite(cell, audit, where)
    reference.check_weights(cell, audit, where)
    if record.status != "done":
        audit.holds("files", where)
        audit.unknown("scores", where, "the cell failed, so it has no predictions")
        return False
    path = store.prediction_file(cell)
    try:
        predictions, wrong = verified(record, store)
    except UserError as error:
        audit.fails("files", str(path), _without(path, error))
        return False
    audit.judge("files", where, _other_suite(record, store))
    audit.judge("scores", where, wrong)
    audit.judge("counts", where, _miscounted(record))
    if record.measured.environment.get("process") == WORKER:
        audit.holds("apart", where)
    else:
        audit.unknown("apart", where, "ran in the process that has the labels, as with --in-process: run them again")
    streams.check(record, predictions, root, audit, where)
    reference.check_source(record, predictions, audit, where)
    return True


def _other_suite(record: Record, store: Store) -> str:
    try:
        owner = store.read_manifest().suite
    except UserError:
        return ""  # already a finding
    suite = record.cell.spec.suite
    return "" if suite == owner else f"belongs to suite '{suite}', its folder to '{owner}'"


def _miscounted(record: Record) -> str:
    """How a record's counts contradict each other."""
    batches, laps = math.ceil(record.scores.samples / record.cell.spec.batch_size), record.measured.batch_seconds
    is_right = len(laps) == batches
    if _cuts(record):  # batches that end with their tasks are more, by at most one for each visit
        is_right = batches <= len(laps) <= record.scores.samples
    if not is_right:
        return f"has the times of {len(laps):,} batches, but its images make {batches:,}"
    if not math.isclose(sum(laps), record.measured.seconds["adapt"], rel_tol=1e-6, abs_tol=1e-6):
        return f"its batches took {sum(laps):.3f} s, but it says {record.measured.seconds['adapt']:.3f} s"
    return f"says that it was finished at {record.finished_at}, in the future" if is_ahead(record) else ""


def _cuts(record: Record) -> bool:
    try:
        return protocol(record.cell.spec).running.cuts
    except UserError:  # a scenario that is not installed here, which is reported with the orders
        return True


def _check_once(found: Sequence[Found], audit: Audit) -> None:
    seen: dict[str, Found] = {}
    for record, store in found:
        if record.status != "done":
            continue
        first, home = seen.setdefault(record.cell.key, (record, store))
        same = first.predictions == record.predictions
        complaint = f"{home.folder} and {store.folder} hold other results of the same cell"
        audit.judge("once", record.cell.slug, "" if same else complaint)


def _without(path: Path, error: UserError) -> str:
    """The message without the file's name, which the finding has."""
    return str(error).removeprefix(f"{path}: ")
