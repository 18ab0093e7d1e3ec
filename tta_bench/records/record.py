"""Records: the results of finished cells. Plain data, read without torch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from tta_bench import parse, validate
from tta_bench.errors import UserError
from tta_bench.records.cell import Cell

SCHEMA = 3


class OtherSchema(UserError):
    """A record of another version of tta-bench: not damaged, but not readable here."""


@dataclass(frozen=True)
class Record:
    """One cell's result, or the reason why it has none."""

    cell: Cell
    label: str  # of its row in tables: the method's name, or a suite's name for a variant
    status: str  # "done" or "failed"
    reason: str = ""  # of a failure, one line
    traceback: str = ""
    samples: int = 0
    top1: float = 0.0  # fractions in [0, 1]
    top5: float = 0.0
    task_top1: dict[str, float] = field(default_factory=dict)  # one entry, or one per task of the stream
    ece: float = 0.0
    score_point: str = ""
    needs_source: bool = False
    resets: int = 0
    reset_batches: list[int] = field(default_factory=list)  # the batches after which the method reset itself, from 0
    seconds: dict[str, float] = field(default_factory=dict)  # adapt, first_batch, load, prepare, build
    batch_seconds: list[float] = field(default_factory=list)
    sample_forwards: int = 0  # inside adapt
    sample_backwards: int = 0
    prepared: str = ""  # "learned" from source images here, or "read": learned by an earlier cell at the cost below
    prepare_forwards: int = 0
    prepare_backwards: int = 0
    memory: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    finished_at: str = ""
    remarks: list[str] = field(default_factory=list)  # what the method did besides adapting
    predictions: str = ""  # digest of the file of predictions; empty for a failure
    schema: int = SCHEMA

    @property
    def reportable(self) -> bool:
        """False for a part of a stream or of a dataset, which says nothing about the whole."""
        return self.cell.limit is None and not self.cell.data.get("allow_partial")

    @property
    def steady_ms_per_image(self) -> float:
        """Milliseconds of `adapt` per image, without the first batch (warm-up) where there are others."""
        later = self.batch_seconds[1:]
        if not later:
            return 1000 * self.seconds["adapt"] / max(self.samples, 1)
        return 1000 * sum(later) / max(self.samples - self.cell.batch_size, 1)

    def to_bytes(self) -> bytes:
        """The content of a record's file: JSON whose last entry is a digest of all bytes before it."""
        text = json.dumps({**asdict(self), "key": self.cell.key}, indent=1).removesuffix("\n}") + ",\n "
        body = text.encode()
        return body + _ending(body)

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Record:
        """Read a record; any changed byte raises a UserError that names the file."""
        given = parse.from_json(content, where)
        if not isinstance(given, dict) or given.get("schema") != SCHEMA:
            found = given.get("schema") if isinstance(given, dict) else given
            raise OtherSchema(f"{where}: schema {validate.shown(found)}, expected {SCHEMA}")
        body, _, _ = content.rpartition(b'"digest"')
        if content != body + _ending(body):
            raise UserError(f"{where}: its digest does not match its content")
        key = given.pop("key", None)
        del given["digest"]
        record = validate.read(cls, given, where)
        if record.cell.key != key:
            raise UserError(f"{where}: its key does not match its content")
        return record


def _ending(body: bytes) -> bytes:
    return f'"digest": "{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode()
