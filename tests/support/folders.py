"""Folders that figures are drawn from, made without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.support.records import changed, keep, make_record, predict
from tta_bench.inspect.inspection import Inspection, InspectionManifest
from tta_bench.records.record import Record
from tta_bench.records.store import Store

ORDER = np.arange(100)
HALF = ORDER % 2 == 0  # every second image is right


def save(store: Store, record: Record, correct: Any = HALF) -> None:
    """Save a record of 100 images in ten batches, of which these are right."""
    keep(store, record, predict(correct))


def make_run(folder: Path) -> Path:
    """A run of two tasks: source, and a method that is better, costlier and was reset once."""
    store = Store.create(folder, "s")
    for task in ("fog", "snow"):
        save(store, make_record("source", 0.5, task=task, ms=1.0))
        better = make_record("better", 0.75, task=task, ms=3.0)
        save(store, changed(better, resets=1, reset_batches=[4], sample_forwards=200), ORDER >= 25)
    store.note_command(["tta-bench", "run"], ["fog", "snow"], ["source", "better"])
    return store.folder


def make_sweep(folder: Path) -> Path:
    """A run of one method at three values of a setting, and of source."""
    store = Store.create(folder, "s")
    save(store, make_record("source", 0.5))
    for value, top1 in ((0.5, 0.6), (0.0, 0.8), (0.05, 0.7)):
        record = make_record("m", top1, settings={"predictor_rho": value, "lr": 0.1})
        keep(store, changed(record, label=f"rho-{value:g}"))
    return store.folder


def make_inspection(folder: Path, **changes: Any) -> Path:
    """Two tasks whose shifts lie apart in the last block, and whose attention is known."""
    rng = np.random.default_rng(0)
    task = np.repeat(["fog", "snow"], 20)
    shifts = rng.normal(size=(40, 8)).astype(np.float32)
    clean = rng.uniform(0.01, 0.05, (40, 4, 4)).astype(np.float32)
    arrays: dict[str, Any] = {
        "task": task,
        "label": np.zeros(40, np.int64),
        "prediction": np.zeros(40, np.int64),
        "shift_first": shifts,
        "shift_last": shifts + 30 * (task == "snow")[:, None].astype(np.float32),
        "correlation_first": np.zeros((40, 4, 4), np.float32),
        "correlation_last": rng.uniform(-1, 1, (40, 4, 4)).astype(np.float32),
        "attention_clean": clean,
        "attention_corrupted": 0.06 - clean,
        "attention_adapted": 2 * clean,
        "shown": np.array([19, 39]),
        "image": rng.integers(0, 255, (2, 3, 32, 32), np.uint8),
        "original": rng.integers(0, 255, (2, 3, 32, 32), np.uint8),
    }
    manifest = InspectionManifest("s", "mine", {}, "m", "w", 32, 1, 0, "", ("tta-bench", "inspect"))
    Inspection(manifest, **{**arrays, **changes}).save(folder)
    return folder
