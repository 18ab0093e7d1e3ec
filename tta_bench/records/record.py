"""Records: what a finished cell left behind. Plain data, read without torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench import validate
from tta_bench.errors import UserError
from tta_bench.records.cell import Cell

SCHEMA = 2


@dataclass(frozen=True)
class Record:
    """One cell's result, or the reason why it has none."""

    cell: Cell
    label: str  # of its row in tables: the method's name, or what a suite calls its variant
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
    reset_batches: list[int] = field(default_factory=list)  # after which of the batches, counted from 0
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
    schema: int = SCHEMA

    @property
    def reportable(self) -> bool:
        """A part of a stream or of a dataset says nothing about the whole."""
        return self.cell.limit is None and not self.cell.data.get("allow_partial")

    @property
    def steady_ms_per_image(self) -> float:
        """Milliseconds of `adapt` per image, without the first batch (warm-up) where there are others."""
        later = self.batch_seconds[1:]
        if not later:
            return 1000 * self.seconds["adapt"] / max(self.samples, 1)
        return 1000 * sum(later) / max(self.samples - self.cell.batch_size, 1)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "key": self.cell.key}

    @classmethod
    def from_json(cls, content: object, where: str) -> Record:
        """Rebuild a record; what does not fit is a UserError that names its place."""
        given = dict(content) if isinstance(content, dict) else {}
        if given.get("schema") != SCHEMA:
            raise UserError(f"{where}: schema {given.get('schema')!r}, expected {SCHEMA}")
        key = given.pop("key", None)
        record = validate.read(cls, given, where)
        if record.cell.key != key:
            raise UserError(f"{where}: its key does not fit its content")
        return record


@dataclass(frozen=True)
class Predictions:
    """What was predicted for each image of a stream, in stream order."""

    index: NDArray[np.int64]  # position in the image set
    label: NDArray[np.int64]
    prediction: NDArray[np.int64]
    in_top5: NDArray[np.bool_]
    confidence: NDArray[np.float32]
    entropy: NDArray[np.float32]

    @property
    def correct(self) -> NDArray[np.bool_]:
        return np.equal(self.prediction, self.label)
