"""Stored predictions beside the scores of their record: checked once per process, however often a command asks."""

from __future__ import annotations

from tta_bench.measure.metrics import contradiction
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.records.store import Store

_sound: set[tuple[str, str, str]] = set()  # cell, predictions and scores that agree


def verified(record: Record, store: Store) -> tuple[Predictions, str]:
    """A finished cell's predictions, and how its scores differ from theirs; empty if they agree.

    UserError if the file does not match the digest in the record.
    """
    predictions = store.predictions(record)
    name = record.cell.key, record.predictions, repr(record.scores)
    if name in _sound:
        return predictions, ""
    wrong = contradiction(record, predictions)
    if not wrong:
        _sound.add(name)
    return predictions, wrong
