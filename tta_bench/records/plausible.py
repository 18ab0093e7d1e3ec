"""What a record of tta-bench can contain, beyond the types of its fields."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from tta_bench.checked import validate
from tta_bench.records.live import schedule_digest

if TYPE_CHECKING:
    from tta_bench.records.record import Measured, Record


def implausible(record: Record) -> str:
    """The first value that no run writes or no table can use; empty for a plausible record."""
    measured = record.measured
    memory, environment = measured.memory, measured.environment
    expected: list[tuple[str, object, type]] = [
        *((f"memory: {key}", memory[key], int) for key in ("bytes", "prepare_bytes") if key in memory),
        *((f"memory: {key}", memory[key], str) for key in ("measure",) if key in memory),
        *((f"environment: {key}", environment[key], int) for key in ("threads",) if key in environment),
        *((f"environment: {key}", environment[key], dict) for key in ("packages",) if key in environment),
    ]
    for name, value, kind in expected:
        in_range = not isinstance(value, int) or (not isinstance(value, bool) and 0 <= value <= 2**53)
        if not isinstance(value, kind) or not in_range:
            return f"{name}: {validate.shown(value)} is not a value tta-bench writes"
    if not isinstance(record.cell.spec.data.get("kind", ""), str):
        return f"cell: data: kind: expected text, got {validate.shown(record.cell.spec.data['kind'])}"
    if record.finished_at and not _is_moment(record.finished_at):
        return f"finished_at: there is no {record.finished_at}"
    if record.status == "failed":
        return ""
    missing = [f"seconds: {name}" for name in ("adapt", "load", "prepare") if name not in measured.seconds]
    missing += ["samples"] * (not record.scores.samples) + ["batch_seconds"] * (not measured.batch_seconds)
    if missing:
        return f"is done, but has no {missing[0]}"
    if max(measured.reset_batches, default=0) >= len(measured.batch_seconds):
        return f"has {len(measured.batch_seconds)} batches, but a reset after batch {max(measured.reset_batches)}"
    return _bad_schedule(record) or _stopped_clock(measured)


def _bad_schedule(record: Record) -> str:
    """What is wrong with the batches that a record of a live stream says were adapted to."""
    measured = record.measured
    adapted = measured.adapted_batches
    live = record.cell.spec.live
    if adapted is None:
        return "" if live is None else "adapted_batches must be set for a live stream"
    if adapted != sorted(set(adapted)) or not adapted or adapted[-1] >= len(measured.batch_seconds):
        return f"adapted_batches: expected some of its {len(measured.batch_seconds)} batches, in order"
    return "" if measured.schedule == schedule_digest(adapted) else "its schedule is not that of its adapted_batches"


def _stopped_clock(measured: Measured) -> str:
    """Adapting to a batch takes time; a batch that was only predicted has none."""
    batches = range(len(measured.batch_seconds))
    adapted = set(batches if measured.adapted_batches is None else measured.adapted_batches)
    right = all((measured.batch_seconds[batch] > 0) == (batch in adapted) for batch in batches)
    return "" if right else "has a batch that took no time, so its clock did not run"


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).year > 2000  # pandas knows no years far from ours
    except ValueError:
        return False
