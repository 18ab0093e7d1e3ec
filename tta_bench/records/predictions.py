"""Per-image predictions of a cell: one array in a file whose bytes are all checked before use."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError

ROW = np.dtype(
    [
        ("index", "<i4"),
        ("label", "<i4"),
        ("prediction", "<i4"),
        ("task", "<i2"),
        ("in_top5", "?"),
        ("confidence", "<f4"),
        ("entropy", "<f4"),
        ("brier", "<f4"),
    ]
)


@dataclass(frozen=True)
class Predictions:
    """The prediction for each image of a stream, in stream order."""

    index: NDArray[np.int32]  # position in the image set
    label: NDArray[np.int32]
    prediction: NDArray[np.int32]
    task: NDArray[np.int16]  # position in the cell's tasks
    in_top5: NDArray[np.bool_]
    confidence: NDArray[np.float32]
    entropy: NDArray[np.float32]
    brier: NDArray[np.float32]  # squared distance of all probabilities from the truth

    @property
    def correct(self) -> NDArray[np.bool_]:
        return np.equal(self.prediction, self.label)

    def __len__(self) -> int:
        return len(self.label)

    def to_bytes(self) -> bytes:
        """The content of a .npy file."""
        rows = np.empty(len(self), ROW)
        for f in fields(self):
            rows[f.name] = getattr(self, f.name)
        return _header(len(rows)) + rows.tobytes()

    @classmethod
    def from_bytes(cls, content: bytes, samples: int, where: str) -> Predictions:
        """Read what `to_bytes` wrote for this many samples; UserError for anything else.

        Length and header are checked before memory is allocated, and values that no run leaves are refused.
        """
        header = _header(samples)
        if len(content) != len(header) + samples * ROW.itemsize or not content.startswith(header):
            raise UserError(f"{where}: expected predictions for {samples:,} images, found another file")
        rows = np.frombuffer(content, ROW, offset=len(header))
        columns: dict[str, Any] = {name: np.ascontiguousarray(rows[name]) for name in ROW.names or ()}
        _refuse_impossible(columns, where)
        return cls(**columns)


def _refuse_impossible(columns: dict[str, Any], where: str) -> None:
    """Refuse values that would make a table wrong or crash it: a negative position, a confidence of NaN."""
    if not len(columns["index"]):
        return
    for name in ("index", "label", "prediction", "task"):
        if columns[name].min() < 0:
            raise UserError(f"{where}: {name}: expected whole numbers of at least 0, got {columns[name].min()}")
    for name, highest in (("confidence", 1 + 1e-5), ("entropy", np.inf), ("brier", 2 + 1e-5)):  # sums may round up
        low, high = columns[name].min(), columns[name].max()  # NaN if one is
        if not (low >= -1e-5 and high <= highest and high < np.inf):
            raise UserError(f"{where}: {name}: got a number that no softmax gives")
    if columns["in_top5"].view(np.uint8).max() > 1:
        raise UserError(f"{where}: in_top5: expected true or false")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=64)  # streams of one dataset have few lengths
def _header(samples: int) -> bytes:
    """The first bytes of a .npy file with this many rows, as `np.save` writes them."""
    buffer = BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": np.lib.format.dtype_to_descr(ROW), "fortran_order": False, "shape": (samples,)}
    )
    return buffer.getvalue()
