"""Makes records for tests of the store and of reports, without running anything."""

from __future__ import annotations

from typing import Any

from tta_bench.records.cell import Cell
from tta_bench.records.record import Record


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
    return Cell(**content)


def make_record(method: str, top1: float = 0.5, *, ms: float = 1.0, **changes: Any) -> Record:
    """A finished record of 100 images in ten batches, each image taking `ms`, the first batch ten times that."""
    batches = [ms / 1000 * 10] * 10
    batches[0] *= 10
    cell = make_cell(method, **changes)
    return Record(
        cell=cell,
        label=cell.method,
        status="done",
        samples=100,
        top1=top1,
        task_top1=dict.fromkeys(cell.tasks, top1),
        top5=min(1.0, top1 + 0.2),
        ece=0.1,
        score_point="pre-update",
        seconds={"adapt": sum(batches), "first_batch": batches[0], "load": 0.1, "prepare": 0.0, "build": 0.1},
        batch_seconds=batches,
        sample_forwards=100,
        sample_backwards=50,
        memory={"bytes": 2**30, "measure": "resident size of the process"},
        environment={"device_name": "chip", "threads": 2},
        finished_at="2026-01-01T00:00:00+00:00",
    )


def make_failure(method: str, reason: str, **changes: Any) -> Record:
    return Record(cell=make_cell(method, **changes), label=method, status="failed", reason=reason)
