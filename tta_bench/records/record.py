"""Records: the results of finished cells. Plain data, read without torch."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Annotated, Any, Literal

from msgspec import Meta

from tta_bench.checked import parse, validate
from tta_bench.checked.annotations import Seconds, Share, Whole
from tta_bench.errors import UserError
from tta_bench.records.cell import Cell
from tta_bench.records.conditions import TimeConditions
from tta_bench.records.plausible import implausible
from tta_bench.records.spec import Label

SCHEMA = 4
WORKER, HERE = "worker", "host"  # the process that adapted: a worker without labels, or the host, which has them
Moment = Annotated[
    str,
    Meta(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00)?\Z", title="a UTC time as in 2026-01-31T23:59:59+00:00"),
]


class OtherSchema(UserError):
    """A record of another version of tta-bench: not damaged, but not readable here."""

    def __init__(self, where: str, schema: object) -> None:
        self.said = f"written by another version of tta-bench (schema {validate.shown(schema)}, here {SCHEMA})"
        super().__init__(f"{where}: {self.said}: read it with that version, or start over with --fresh")


@dataclass(frozen=True)
class Scores:
    """What predictions give beside their labels."""

    samples: Whole = 0
    top1: Share = 0.0
    top5: Share = 0.0
    task_top1: dict[str, Share] = field(default_factory=dict)  # one entry, or one per task of the stream
    ece: Share = 0.0
    open: dict[str, dict[str, Share]] = field(default_factory=dict)  # of each task with unknown classes: `open_set.py`


@dataclass(frozen=True)
class Measured:
    """What was measured while a method adapted; needs no label."""

    score_point: str = ""
    needs_source: bool = False
    start_changed: Whole | None = None  # answers to the first batch that are not Source's; None: not compared
    resets: Whole = 0
    reset_batches: list[Whole] = field(default_factory=list)  # the batches after which the method reset itself, from 0
    seconds: dict[str, Seconds] = field(default_factory=dict)  # adapt, first_batch, load, prepare, build
    batch_seconds: list[Seconds] = field(default_factory=list)  # inside adapt; 0 for a batch that was only predicted
    adapted_batches: list[Whole] | None = None  # of a live or frozen stream, from 0; None: all
    schedule: str = ""  # digest of these
    sample_forwards: Whole = 0  # inside adapt
    sample_backwards: Whole = 0
    prepared: str = ""  # "learned" from source images here, or "read": learned by an earlier cell at the cost below
    prepare_forwards: Whole = 0
    prepare_backwards: Whole = 0
    memory: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)  # what the method did besides adapting

    @property
    def seen(self) -> float:
        """The share of batches that the method adapted to."""
        if self.adapted_batches is None:
            return 1.0
        return len(self.adapted_batches) / max(len(self.batch_seconds), 1)


_SCORES, _MEASURED = (tuple(kind.__annotations__) for kind in (Scores, Measured))


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """How a cell ended."""

    status: Literal["done", "failed"]
    reason: str = ""  # of a failure, one line
    traceback: str = ""
    finished_at: Moment = ""
    predictions: str = ""  # digest of the file of predictions; empty for a failure


@dataclass(frozen=True, kw_only=True)
class _File(_Ended):
    """The entries of a record's file, beside those of its scores and of what was measured."""

    cell: dict[str, Any]
    label: Label
    schema: int
    key: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class Record(_Ended):
    """One cell's result, or the reason why it has none."""

    cell: Cell
    scores: Scores = field(default_factory=Scores)
    measured: Measured = field(default_factory=Measured)

    @property
    def label(self) -> str:
        """The name of its row in tables."""
        return self.cell.spec.label

    def labelled(self, label: str) -> Record:
        """This record under another row's name."""
        return replace(self, cell=replace(self.cell, spec=replace(self.cell.spec, label=label)))

    @property
    def accuracies(self) -> dict[str, float]:
        """Top-1 as a fraction of each task that averages are over, if the cell is done."""
        return {task: top1 for task, top1 in self.scores.task_top1.items() if task in self.cell.spec.averaged}

    @property
    def accuracy(self) -> float:
        """Top-1 over all images of its tasks; with clean images beside them, the mean over tasks."""
        own = self.accuracies
        return self.scores.top1 if len(own) == len(self.scores.task_top1) else fmean(own.values())

    @property
    def reportable(self) -> bool:
        """False for a part of a stream or of a dataset, which says nothing about the whole."""
        return self.cell.spec.limit is None and not self.cell.spec.data.get("allow_partial")

    @cached_property
    def time_conditions(self) -> TimeConditions:
        """What this record's times must share with others' to be compared."""
        return TimeConditions.of(self.measured.environment)

    @cached_property
    def steady_ms_per_image(self) -> float:
        """Milliseconds of `adapt` per image adapted to, without the first batch (warm-up) where there are others."""
        laps, size = self.measured.batch_seconds, self.cell.spec.batch_size
        adapted = self.measured.adapted_batches
        timed = [batch for batch in (range(len(laps)) if adapted is None else adapted) if batch > 0] or [0]
        last, samples = len(laps) - 1, self.scores.samples
        if adapted is None:  # batches that end with tasks may be short anywhere
            images: float = samples - size if last else samples
        elif len(laps) == math.ceil(samples / size):
            images = sum(samples - size * last if batch == last else size for batch in timed)
        else:
            images = len(timed) * samples / len(laps)
        return 1000 * sum(laps[batch] for batch in timed) / max(images, 1)

    def to_bytes(self) -> bytes:
        """The content of a record's file: flat JSON whose last entry is a digest of all bytes before it."""
        cell, measured, scores = self.cell.flat(), asdict(self.measured), asdict(self.scores)
        live, remarks, start = self.cell.spec.live, measured.pop("remarks"), measured.pop("start_changed")
        content = {
            "cell": {**cell, "live": live and asdict(live)},
            **{name: getattr(self, name) for name in ("label", "status", "reason", "traceback")},
            **{name: value for name, value in scores.items() if name != "open" or value},
            **measured,
            **{"finished_at": self.finished_at, "remarks": remarks, "predictions": self.predictions},
            **({} if start is None else {"start_changed": start}),  # records before it keep their bytes
            **{"schema": SCHEMA, "key": self.cell.key},
        }
        body = (json.dumps(content, indent=1).removesuffix("\n}") + ",\n ").encode()
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
        record, key = _from_flat(given, where)
        if record.cell.key != key:
            raise UserError(f"{where}: its key does not match its content")
        if wrong := implausible(record):
            raise UserError(f"{where}: {wrong}")
        return record


def _from_flat(given: Mapping[str, Any], where: str) -> tuple[Record, str]:
    """The record in a file's content, with every part checked, and the key that the file states."""
    scores, measured = ({name: given[name] for name in kind if name in given} for kind in (_SCORES, _MEASURED))
    own = {name: value for name, value in given.items() if name not in scores and name not in measured}
    file = validate.read(_File, own, where, also=(*_SCORES, *_MEASURED))
    record = Record(
        cell=Cell.from_flat(file.cell, file.label, f"{where}: cell"),
        scores=validate.read(Scores, scores, where),
        measured=validate.read(Measured, measured, where),
        **{name: getattr(file, name) for name in _Ended.__annotations__},
    )
    return record, file.key


def _ending(body: bytes) -> bytes:
    return f'"digest": "{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode()
