"""Finds finished cells without torch, and runs the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tta_bench.errors import UserError
from tta_bench.measure.verified import verified
from tta_bench.records.reading import REDO
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.key_cache import KeyCache
from tta_bench.runs.site import Site
from tta_bench.runs.watcher import Watcher

if TYPE_CHECKING:
    from tta_bench.runs.bind import Binder


def run_specs(
    specs: Sequence[CellSpec],
    site: Site,
    store: Store,
    watcher: Watcher,
    binder: Binder | None = None,
    known: Mapping[str, Record] | None = None,
) -> list[Record]:
    """Run every cell that is not in the store; returns the records of all, in the order of the specs.

    `binder` is the site's binder, if one has loaded something already; `known` is what `finished` has found.
    """
    found = dict(finished(specs, site, store) if known is None else known)
    for spec in specs:
        if spec.digest in found:
            watcher.on_record(found[spec.digest].labelled(spec.label), is_new=False)
    left = [spec for spec in specs if spec.digest not in found]
    if left:
        from tta_bench.runs.bind import Binder
        from tta_bench.runs.execute import run_left
        from tta_bench.runs.source_check import warn

        binder = binder or Binder(site)
        try:
            warn(left, binder, store, watcher)
            found |= run_left(left, binder, store, watcher)
        finally:
            binder.workers.close()
    return [found[spec.digest].labelled(spec.label) for spec in specs]


def finished(specs: Sequence[CellSpec], site: Site, store: Store) -> dict[str, Record]:
    """The records of finished cells, by the digest of their spec; opens no image and loads no weights."""
    if not store.cells.is_dir():
        return {}
    known, records = KeyCache(store.known, site), store.by_key()
    keys = {spec.digest: known.key(spec) for spec in specs}
    there = {digest: records[key] for digest, key in keys.items() if key in records}
    return {digest: record for digest, record in there.items() if is_finished(record, store)}


def is_finished(record: Record, store: Store) -> bool:
    """Whether a cell need not run again: it is done, and its complete predictions give its scores."""
    return record.status == "done" and not damage(record, store)


def damage(record: Record, store: Store) -> str:
    """What is wrong with a finished cell's predictions, or with the scores that they give; empty if nothing is."""
    try:
        _, wrong = verified(record, store)
    except UserError as error:
        return str(error).removesuffix(f": {REDO}")
    return wrong and f"{store.prediction_file(record.cell).with_suffix('.json')}: {wrong}"
