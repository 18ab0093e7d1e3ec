"""Copies finished cells into a run folder, so that `tta-bench run --out` runs only what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tta_bench.errors import UserError
from tta_bench.files import read_whole, write_whole
from tta_bench.packed.address import Address, run_folder
from tta_bench.records.store import Store


def copy_runs(addresses: Sequence[Address], out: Path) -> tuple[int, int]:
    """Copy the cells of these runs into `out`, new or existing; returns how many were copied, and how many were there.

    A cell that `out` has stays as it is. Predictions are checked against their digests first. UserError if the suites
    differ, before anything is written.
    """
    sources = [Store.open(run_folder(address)) for address in addresses]
    suites = [source.read_manifest().suite for source in sources]
    for address, suite in zip(addresses, suites, strict=True):
        if suite != suites[0]:
            raise UserError(f"{address} has suite '{suite}', {addresses[0]} has '{suites[0]}': unpack them apart")
    found = [(source, record) for source in sources for record in source.by_key().values() if record.status == "done"]
    for source, record in found:
        source.predictions(record)
    store = Store.create(out, suites[0])
    copied = 0
    for source, record in found:
        if not store.record_file(record.cell.slug).exists():
            store.save(record, source.predictions(record))
            copied += 1
    for source in sources:
        _copy_notes(source, store)
    return copied, len(found) - copied


def _copy_notes(source: Store, store: Store) -> None:
    """Copy commands, for the order of rows and how settings were chosen, and warnings."""
    source.past_commands()  # refuses unreadable ones
    for path in sorted([*source.commands.glob("[!.]*.json"), *source.warning_files.glob("[!.]*.txt")]):
        copy = store.folder / path.parent.name / path.name
        if not copy.exists():
            with store.writing():
                write_whole(copy, read_whole(path))
