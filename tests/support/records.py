"""Makes records for tests of the store and of reports, without running anything."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from tta_bench.measure.metrics import scores_of
from tta_bench.records.cell import DESCRIBED, Cell, Found
from tta_bench.records.live import schedule_digest
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Measured, Record, Scores
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store


def make_cell(method: str, **changes: Any) -> Cell:
    content: dict[str, Any] = (
        {
            "suite": "s",
            "suite_version": 1,
            "tasks": ("fog",),
            "scenario": "normal",
            "seed": 0,
            "method": method,
            "settings": {},
            "method_code": f"code of {method}",
            "data": {"kind": "digits-c"},
            "data_code": "d",
            "model": "m",
            "weights": "w",
            "mean": (0.5, 0.5, 0.5),
            "std": (0.5, 0.5, 0.5),
            "batch_size": 10,
            "limit": None,
            "source": "",
            "device": "cpu",
            "amp": None,
            "compile": False,
            "harness": "0",
            "images": "i",
        }
        | ({"tasks": (changes.pop("task"),)} if "task" in changes else {})
        | changes
    )
    content.setdefault("stream", f"order of {content['tasks'][0]}, {content['seed']}, {content['limit']}")
    return _cell(content, method)


def _cell(flat: dict[str, Any], label: str) -> Cell:
    """The cell of this flat form, as `Cell.from_flat` makes it, but unchecked: some tests need impossible ones."""
    content = {"seed_is_set": False, "scenario_settings": {}, "live": None, **flat}
    is_set, settings, data = content.pop("seed_is_set"), content["settings"], content.pop("data")
    asked = {f.name: content.pop(f.name) for f in fields(CellSpec) if f.name in content and f.name != "settings"}
    spec = CellSpec(
        **asked,
        label=label,
        data={key: value for key, value in data.items() if key not in DESCRIBED},
        settings={key: value for key, value in settings.items() if is_set or key != "seed"},
    )
    return Cell(spec, Found(**content, data={key: value for key, value in data.items() if key in DESCRIBED}))


def make_record(method: str, top1: float = 0.5, *, ms: float = 1.0, **changes: Any) -> Record:
    """A finished record of 100 images in ten batches, each image taking `ms`, the first batch ten times that."""
    batches = [ms / 1000 * 10] * 10
    batches[0] *= 10
    cell = make_cell(method, **changes)
    live = {} if cell.spec.live is None else {"adapted_batches": [*range(10)], "schedule": schedule_digest(range(10))}
    scores = Scores(
        samples=100,
        top1=top1,
        task_top1=dict.fromkeys(cell.spec.tasks, top1),
        top5=min(1.0, top1 + 0.2),
        ece=0.1,
    )
    measured = Measured(
        **live,
        score_point="pre-update",
        seconds={"adapt": sum(batches), "first_batch": batches[0], "load": 0.1, "prepare": 0.0, "build": 0.1},
        batch_seconds=batches,
        sample_forwards=100,
        sample_backwards=50,
        memory={"bytes": 2**30, "measure": "resident size of the process"},
        environment={"device_name": "chip", "threads": 2},
    )
    return Record(cell=cell, status="done", scores=scores, measured=measured, finished_at="2026-01-01T00:00:00+00:00")


def changed_cell(cell: Cell, **changes: Any) -> Cell:
    """A cell with other values, by the names of its flat form."""
    return _cell({**cell.flat(), **changes}, cell.spec.label)


def changed(record: Record, **changes: Any) -> Record:
    """A record with other values of fields of its own, of its cell, its scores, or of what was measured."""
    parts: dict[type, dict[str, Any]] = {kind: {} for kind in (Record, Scores, Measured)}
    flat = {}
    for name, value in changes.items():
        kind = next((kind for kind in parts if name in {f.name for f in fields(kind)}), None)
        (flat if kind is None else parts[kind])[name] = value
    record = replace(record, **parts[Record])
    label = flat.pop("label", record.label)
    cell = _cell({**record.cell.flat(), **flat}, label)
    scores, measured = replace(record.scores, **parts[Scores]), replace(record.measured, **parts[Measured])
    return replace(record, cell=cell, scores=scores, measured=measured)


def predict(correct: Any, *, index: Any = None, label: Any = None, task: Any = None) -> Predictions:
    """Predictions of which these are right: one off where they are wrong, sure of nothing."""
    right = np.asarray(correct, dtype=bool)
    count = len(right)
    truth = np.zeros(count, np.int32) if label is None else np.asarray(label, np.int32)
    return Predictions(
        index=np.arange(count, dtype=np.int32) if index is None else np.asarray(index, np.int32),
        label=truth,
        prediction=np.where(right, truth, truth + 1).astype(np.int32),
        task=np.zeros(count, np.int16) if task is None else np.asarray(task, np.int16),
        in_top5=right,
        confidence=np.zeros(count, np.float32),
        entropy=np.zeros(count, np.float32),
        brier=np.ones(count, np.float32),
    )


def mixed(correct: Any, *, unknown: Any, confidence: Any = None, task: Any = None) -> Predictions:
    """Predictions with these images of known classes, and others at the places `unknown` of the stream.

    `confidence` and `task` are those of the known images, then of the unknown ones.
    """
    count = len(correct) + len(unknown)
    place = np.concatenate([np.setdiff1d(np.arange(count), unknown), unknown]).argsort()
    all_right = predict([*correct, *([False] * len(unknown))], task=task)
    label = np.concatenate([all_right.label[: len(correct)], np.full(len(unknown), -1, np.int32)])
    prediction = np.concatenate([all_right.prediction[: len(correct)], np.full(len(unknown), 7, np.int32)])
    sure = all_right.confidence if confidence is None else np.asarray(confidence, np.float32)
    rows = {
        **{name: getattr(all_right, name) for name in ("task", "in_top5", "entropy", "brier")},
        **{"label": label, "prediction": prediction, "confidence": sure, "energy": sure},
        "own_score": np.full(count, np.nan, np.float32),
    }
    return Predictions.of_columns({"index": np.arange(count, dtype=np.int32), **{k: v[place] for k, v in rows.items()}})


def keep(store: Store, record: Record, predictions: Predictions | None = None) -> Record:
    """Save a record with its predictions, or with made ones that have its accuracies; its scores follow from them."""
    if record.status != "done":
        return store.save(record, None)
    if predictions is None:
        tasks = dict.fromkeys(record.cell.spec.tasks)
        each = record.scores.samples // len(tasks)
        shares = [record.scores.task_top1.get(task, record.scores.top1) for task in tasks]
        right = np.concatenate([np.arange(each) < round(share * each) for share in shares])
        predictions = predict(right, task=np.repeat(np.arange(len(tasks)), each))
    return store.save(replace(record, scores=scores_of(predictions, record.cell.spec.tasks)), predictions)


def make_failure(method: str, reason: str, **changes: Any) -> Record:
    return Record(cell=make_cell(method, **changes), status="failed", reason=reason)
