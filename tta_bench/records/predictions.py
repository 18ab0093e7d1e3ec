"""Per-image predictions of a cell: one array in a file whose bytes are all checked before use.

The file of a stream with images of unknown classes has two columns more, and the label -1 for these images. In memory
they are apart from the others, so that no accuracy counts them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
OPEN_ROW = np.dtype([*((name, ROW[name]) for name in ROW.names or ()), ("energy", "<f4"), ("own_score", "<f4")])
UNKNOWN = -1  # the label of an image whose class the model does not know


@dataclass(frozen=True)
class Predictions:
    """The prediction for each image of a stream, in stream order; those of unknown classes are in `unknown`."""

    index: NDArray[np.int32]  # position in the image set
    label: NDArray[np.int32]
    prediction: NDArray[np.int32]
    task: NDArray[np.int16]  # position in the cell's tasks
    in_top5: NDArray[np.bool_]
    confidence: NDArray[np.float32]
    entropy: NDArray[np.float32]
    brier: NDArray[np.float32]  # squared distance of all probabilities from the truth
    energy: NDArray[np.float32] | None = None  # log of the sum of all exponentials of logits; None if not stored
    own_score: NDArray[np.float32] | None = None  # by the method, higher for known classes; NaN if it has none
    place: NDArray[np.int64] | None = None  # see `places`
    unknown: Predictions | None = None  # the images of unknown classes

    @property
    def correct(self) -> NDArray[np.bool_]:
        return np.equal(self.prediction, self.label)

    def __len__(self) -> int:
        return len(self.label)

    @property
    def images(self) -> int:
        """All images of the stream."""
        return len(self) + (len(self.unknown) if self.unknown else 0)

    @property
    def places(self) -> NDArray[np.int64]:
        """Where in the stream these images were shown."""
        return np.arange(len(self)) if self.place is None else self.place

    def whole(self, column: str) -> NDArray[Any]:
        """A column for all images of the stream, those of unknown classes included."""
        own: NDArray[Any] = getattr(self, column)
        if self.unknown is None or self.place is None or self.unknown.place is None:
            return own
        found = np.empty(self.images, own.dtype)
        found[self.place], found[self.unknown.place] = own, getattr(self.unknown, column)
        return found

    def of_task(self, number: int) -> Predictions:
        """The images of one task."""
        kept = np.flatnonzero(self.task == number)
        columns = [name for name in OPEN_ROW.names or () if getattr(self, name) is not None]
        own = Predictions(**{name: getattr(self, name)[kept] for name in columns})
        return replace(own, unknown=self.unknown.of_task(number)) if self.unknown else own

    @classmethod
    def of_columns(cls, columns: Mapping[str, Any]) -> Predictions:
        """Predictions with these columns; `energy` and `own_score` are kept only if some labels are unknown."""
        is_unknown = columns["label"] < 0
        if not is_unknown.any():
            return cls(**{name: columns[name] for name in ROW.names or ()})
        known, other = (
            cls(**{name: column[place] for name, column in columns.items()}, place=place)
            for place in (np.flatnonzero(~is_unknown), np.flatnonzero(is_unknown))
        )
        return replace(known, unknown=other)

    def to_bytes(self) -> bytes:
        """The content of a .npy file."""
        row = ROW if self.unknown is None else OPEN_ROW
        rows = np.empty(self.images, row)
        for name in row.names or ():
            rows[name] = self.whole(name)
        return _header(len(rows), is_open=row is OPEN_ROW) + rows.tobytes()

    @classmethod
    def from_bytes(cls, content: bytes, samples: int, where: str) -> Predictions:
        """Read what `to_bytes` wrote for this many samples; UserError for anything else.

        Length and header are checked before memory is allocated, and values that no run leaves are refused.
        """
        for row in (ROW, OPEN_ROW):
            header = _header(samples, is_open=row is OPEN_ROW)
            if len(content) == len(header) + samples * row.itemsize and content.startswith(header):
                rows = np.frombuffer(content, row, offset=len(header))
                columns: dict[str, Any] = {name: np.ascontiguousarray(rows[name]) for name in row.names or ()}
                _refuse_impossible(columns, where)
                return cls.of_columns(columns)
        raise UserError(f"{where}: expected predictions for {samples:,} images, found another file")


def _refuse_impossible(columns: dict[str, Any], where: str) -> None:
    """Refuse values that would make a table wrong or crash it: a negative position, a confidence of NaN."""
    if not len(columns["index"]):
        return
    for name in ("index", "label", "prediction", "task"):
        least = UNKNOWN if name == "label" and "energy" in columns else 0
        if columns[name].min() < least:
            raise UserError(f"{where}: {name}: expected whole numbers of at least {least}, got {columns[name].min()}")
    if "energy" in columns:
        _refuse_impossible_open(columns, where)
    for name, highest in (("confidence", 1 + 1e-5), ("entropy", np.inf), ("brier", 2 + 1e-5)):  # sums may round up
        low, high = columns[name].min(), columns[name].max()  # NaN if one is
        if not (low >= -1e-5 and high <= highest and high < np.inf):
            raise UserError(f"{where}: {name}: got a number that no softmax gives")
    if columns["in_top5"].view(np.uint8).max() > 1:
        raise UserError(f"{where}: in_top5: expected true or false")


def _refuse_impossible_open(columns: dict[str, Any], where: str) -> None:
    if not 0 < np.count_nonzero(columns["label"] < 0) < len(columns["label"]):
        raise UserError(f"{where}: label: expected images of known and of unknown classes")
    own = columns["own_score"]
    if not np.isfinite(columns["energy"]).all() or not (np.isfinite(own).all() or np.isnan(own).all()):
        raise UserError(f"{where}: energy or own_score: expected finite numbers")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=64)  # streams of one dataset have few lengths
def _header(samples: int, *, is_open: bool = False) -> bytes:
    """The first bytes of a .npy file with this many rows, as `np.save` writes them."""
    buffer, row = BytesIO(), OPEN_ROW if is_open else ROW
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": np.lib.format.dtype_to_descr(row), "fortran_order": False, "shape": (samples,)}
    )
    return buffer.getvalue()
