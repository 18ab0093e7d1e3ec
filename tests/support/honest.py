"""Run folders of an embedded suite that hold in every respect, made without running anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.records import changed, changed_cell, keep, make_cell, make_record
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.verify import reference, streams

SUITE, DATA = "digits-c-5", {"kind": "digits-c", "severity": 5}


def honest_record(method: str, task: str = "contrast", **changes: Any) -> tuple[Record, Predictions]:
    """A record of a whole stream that gets three of four images right, and its predictions."""
    name = json.dumps((SUITE, [task], "normal", {}, 0, None, DATA))
    expected = streams._expected(name, None)
    count = len(expected.index)
    right = np.arange(count) % 4 != 0
    predictions = Predictions(
        index=expected.index.astype(np.int32),
        label=expected.label.astype(np.int32),
        prediction=np.where(right, expected.label, (expected.label + 1) % 10).astype(np.int32),
        task=np.zeros(count, np.int16),
        in_top5=right,
        confidence=np.full(count, 0.7, np.float32),
        entropy=np.full(count, 0.5, np.float32),
        brier=np.where(right, 0.1, 1.5).astype(np.float32),
    )
    cell = make_cell(
        method,
        suite=SUITE,
        tasks=(task,),
        data=DATA,
        data_code=expected.data_code,
        stream=expected.digest,
        images=expected.images,
        model="digits-vit",
        weights=reference.published_weights("digits-vit"),
        batch_size=32,
    )
    laps = [0.01] * (count // 32)
    record = changed(
        make_record(method),
        cell=changed_cell(cell, **changes),
        batch_seconds=laps,
        seconds={"adapt": sum(laps), "first_batch": 0.01, "load": 0.1, "prepare": 0.0, "build": 0.1},
        environment={"packages": {name: version(name) for name in streams.PACKAGES}, "threads": 1},
    )
    return record, predictions


def honest_run(folder: Path, methods: Sequence[str] = ("source", "tent")) -> Store:
    """A run folder of two methods on one task."""
    store = Store.create(folder, SUITE)
    for method in methods:
        keep(store, *honest_record(method))
    return store


def forge(store: Store, record: Record, predictions: Predictions | None = None) -> None:
    """Replace a cell's files by others with fresh digests; its scores are those that the record claims."""
    old = next(one for one in store.records() if one.cell.spec.method == record.cell.spec.method)
    for path in (store.prediction_file(old.cell), store.prediction_file(old.cell).with_suffix(".json")):
        path.unlink()
    store.save(record, predictions or honest_record(old.cell.spec.method)[1])
