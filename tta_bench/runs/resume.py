"""Finds finished cells, without torch."""

from __future__ import annotations

from collections.abc import Sequence

from tta_bench.errors import UserError
from tta_bench.measure.verified import verified
from tta_bench.records.reading import REDO
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.key_cache import KeyCache
from tta_bench.runs.site import Site


def finished(specs: Sequence[CellSpec], site: Site, store: Store) -> dict[str, Record]:
    """The records of finished cells, by the digest of their spec; opens no image and loads no weights."""
    if not store.cells.is_dir():
        return {}
    cache, records = KeyCache(store.keys, site), store.by_key()
    keys = {spec.digest: cache.key(spec) for spec in specs}
    found = {digest: records[key] for digest, key in keys.items() if key in records}
    return {digest: record for digest, record in found.items() if is_finished(record, store)}


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
