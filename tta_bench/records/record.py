"""Records: the results of finished cells. Plain data, read without torch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal

from msgspec import Meta

from tta_bench.checked import parse, validate
from tta_bench.checked.annotations import Seconds, Share, Whole
from tta_bench.errors import UserError
from tta_bench.records.cell import Cell
from tta_bench.records.conditions import TimeConditions
from tta_bench.records.live import schedule_digest

SCHEMA = 4
WORKER, HERE = "worker", "host"  # the process that adapted: one of its own, or the one that has the labels
Moment = Annotated[
    str,
    Meta(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00)?\Z", title="a UTC time as in 2026-01-31T23:59:59+00:00"),
]
Label = Annotated[str, Meta(min_length=1, max_length=1000, title="text of at most 1,000 characters")]


class OtherSchema(UserError):
    """A record of another version of tta-bench: not damaged, but not readable here."""

    def __init__(self, where: str, schema: object) -> None:
        self.said = f"written by another version of tta-bench (schema {validate.shown(schema)}, here {SCHEMA})"
        super().__init__(f"{where}: {self.said}: read it with that version, or start over with --fresh")


@dataclass(frozen=True)
class Record:
    """One cell's result, or the reason why it has none."""

    cell: Cell
    label: Label  # of its row in tables: the method's name, or a suite's name for a variant
    status: Literal["done", "failed"]
    reason: str = ""  # of a failure, one line
    traceback: str = ""
    samples: Whole = 0
    top1: Share = 0.0
    top5: Share = 0.0
    task_top1: dict[str, Share] = field(default_factory=dict)  # one entry, or one per task of the stream
    ece: Share = 0.0
    score_point: str = ""
    needs_source: bool = False
    resets: Whole = 0
    reset_batches: list[Whole] = field(default_factory=list)  # the batches after which the method reset itself, from 0
    seconds: dict[str, Seconds] = field(default_factory=dict)  # adapt, first_batch, load, prepare, build
    batch_seconds: list[Seconds] = field(default_factory=list)  # inside adapt; 0 for a batch that was only predicted
    adapted_batches: list[Whole] | None = None  # of a live stream, from 0; None: all
    schedule: str = ""  # digest of these
    sample_forwards: Whole = 0  # inside adapt
    sample_backwards: Whole = 0
    prepared: str = ""  # "learned" from source images here, or "read": learned by an earlier cell at the cost below
    prepare_forwards: Whole = 0
    prepare_backwards: Whole = 0
    memory: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    finished_at: Moment = ""
    remarks: list[str] = field(default_factory=list)  # what the method did besides adapting
    predictions: str = ""  # digest of the file of predictions; empty for a failure
    schema: int = SCHEMA

    @property
    def reportable(self) -> bool:
        """False for a part of a stream or of a dataset, which says nothing about the whole."""
        return self.cell.limit is None and not self.cell.data.get("allow_partial")

    @property
    def seen(self) -> float:
        """The share of batches that the method adapted to."""
        if self.adapted_batches is None:
            return 1.0
        return len(self.adapted_batches) / max(len(self.batch_seconds), 1)

    @cached_property
    def time_conditions(self) -> TimeConditions:
        """What this record's times must share with others' to be compared."""
        return TimeConditions.of(self.environment)

    @cached_property
    def steady_ms_per_image(self) -> float:
        """Milliseconds of `adapt` per image adapted to, without the first batch (warm-up) where there are others."""
        count, size = len(self.batch_seconds), self.cell.batch_size
        adapted = range(count) if self.adapted_batches is None else self.adapted_batches
        timed = [batch for batch in adapted if batch > 0] or [0]
        images = sum(self.samples - size * (count - 1) if batch == count - 1 else size for batch in timed)
        return 1000 * sum(self.batch_seconds[batch] for batch in timed) / max(images, 1)

    def to_bytes(self) -> bytes:
        """The content of a record's file: JSON whose last entry is a digest of all bytes before it."""
        text = json.dumps({**asdict(self), "key": self.cell.key}, indent=1).removesuffix("\n}") + ",\n "
        body = text.encode()
        return body + _ending(body)

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Record:
        """Read a record; any changed byte raises a UserError that names the file."""
        given = parse.from_json(content, where)
        body, mark, _ = content.rpartition(b'"digest"')
        is_whole = content == body + _ending(body)
        if not isinstance(given, dict) or (mark and not is_whole):  # versions before digests have none
            raise UserError(f"{where}: its digest does not match its content")
        if given.get("schema") != SCHEMA:
            raise OtherSchema(where, given.get("schema"))
        if not is_whole:
            raise UserError(f"{where}: has no digest")
        key = given.pop("key", None)
        del given["digest"]
        record = validate.read(cls, given, where)
        if record.cell.key != key:
            raise UserError(f"{where}: its key does not match its content")
        if wrong := _implausible(record):
            raise UserError(f"{where}: {wrong}")
        return record


def _implausible(record: Record) -> str:
    """What no run of tta-bench leaves, and what tables could not use; empty if there is nothing."""
    memory, environment = record.memory, record.environment
    expected: list[tuple[str, object, type]] = [
        *((f"memory: {key}", memory[key], int) for key in ("bytes", "prepare_bytes") if key in memory),
        *((f"memory: {key}", memory[key], str) for key in ("measure",) if key in memory),
        *((f"environment: {key}", environment[key], int) for key in ("threads",) if key in environment),
        *((f"environment: {key}", environment[key], dict) for key in ("packages",) if key in environment),
    ]
    for name, value, kind in expected:
        in_range = not isinstance(value, int) or (not isinstance(value, bool) and 0 <= value <= 2**53)
        if not isinstance(value, kind) or not in_range:
            return f"{name}: {validate.shown(value)} is none that a run leaves"
    if not isinstance(record.cell.data.get("kind", ""), str):
        return f"cell: data: kind: expected text, got {validate.shown(record.cell.data['kind'])}"
    if record.finished_at and not _is_moment(record.finished_at):
        return f"finished_at: there is no {record.finished_at}"
    if record.status == "failed":
        return ""
    missing = [f"seconds: {name}" for name in ("adapt", "load", "prepare") if name not in record.seconds]
    missing += [name for name in ("samples", "batch_seconds") if not getattr(record, name)]
    if missing:
        return f"is done, but has no {missing[0]}"
    if max(record.reset_batches, default=0) >= len(record.batch_seconds):
        return f"has {len(record.batch_seconds)} batches, but a reset after batch {max(record.reset_batches)}"
    return _bad_schedule(record) or _stopped_clock(record)


def _bad_schedule(record: Record) -> str:
    """What is wrong with the batches that a record of a live stream says were adapted to."""
    adapted = record.adapted_batches
    if (adapted is None) != (record.cell.live is None):
        return "says which batches were adapted to, or its cell that the stream does not wait, but not both"
    if adapted is None:
        return ""
    if adapted != sorted(set(adapted)) or not adapted or adapted[-1] >= len(record.batch_seconds):
        return f"adapted_batches: expected some of its {len(record.batch_seconds)} batches, in order"
    return "" if record.schedule == schedule_digest(adapted) else "its schedule is not that of its adapted_batches"


def _stopped_clock(record: Record) -> str:
    """A batch that was adapted to takes time; one that was only predicted has none."""
    batches = range(len(record.batch_seconds))
    adapted = set(batches if record.adapted_batches is None else record.adapted_batches)
    right = all((record.batch_seconds[batch] > 0) == (batch in adapted) for batch in batches)
    return "" if right else "has a batch that took no time, so its clock did not run"


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).year > 2000  # pandas knows no years far from ours
    except ValueError:
        return False


def _ending(body: bytes) -> bytes:
    return f'"digest": "{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode()
