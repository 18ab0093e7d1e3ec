"""Several run folders as one: their records, each once, and the predictions behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError
from tta_bench.records.cell import Cell
from tta_bench.records.record import Predictions, Record
from tta_bench.records.store import Store


class Runs:
    """The records of run folders; a cell that lies in several counts once, the newest.

    Predictions are found for the cells of these very records.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.stores = [Store.open(folder) for folder in folders]
        found = [(record, store) for store in self.stores for record in store.records()]
        if len(self.stores) > 1:
            found = _each_once(found)
        self.records = [record for record, _ in found]
        self._home = {id(record.cell): store for record, store in found}  # a key takes long to make
        self._correct: dict[int, NDArray[np.bool_]] = {}
        self._truth: dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def warnings(self) -> list[str]:
        """What is to be known of these records' weights."""
        used = {"", *(record.cell.weights for record in self.records)}
        noted = [pair for store in self.stores for pair in store.warnings().items()]
        return list(dict.fromkeys(told for weights, told in noted if told and weights in used))

    def predictions(self, cell: Cell) -> Predictions:
        return self._home[id(cell)].predictions(cell)

    def outline(self, cell: Cell) -> Predictions:
        """Predictions as far as right and wrong go: -1 for each wrong one, and nothing but index, label and prediction.

        The page needs no more of them, and reading all of a large run takes longer than making its tables.
        """
        index, label = self._stream(cell)
        nothing = np.zeros(0, np.float32)
        return Predictions(
            index=index,
            label=label,
            prediction=np.where(self.correct(cell), label, -1),
            in_top5=nothing.astype(bool),
            confidence=nothing,
            entropy=nothing,
        )

    def index(self, cell: Cell) -> NDArray[np.int64]:
        """Which image each sample of the cell's stream is; the same for every method, so read once."""
        return self._stream(cell)[0]

    def correct(self, cell: Cell) -> NDArray[np.bool_]:
        """Whether each prediction was right, in stream order. Reads a quarter of what `predictions` does."""
        if id(cell) not in self._correct:
            self._correct[id(cell)] = self._read_correct(cell)
        return self._correct[id(cell)]

    def _read_correct(self, cell: Cell) -> NDArray[np.bool_]:
        (prediction,) = self._arrays(cell, "prediction")
        label = self._stream(cell)[1]
        if len(prediction) != len(label):
            raise UserError(
                f"{self._home[id(cell)].prediction_file(cell)}: {len(prediction)} predictions for {len(label)} images: "
                f"delete it and its .json, run again"
            )
        return np.equal(prediction, label)

    def _stream(self, cell: Cell) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        name = (cell.suite, cell.stream)
        if name not in self._truth:
            index, label = self._arrays(cell, "index", "label")
            self._truth[name] = index, label
        return self._truth[name]

    def _arrays(self, cell: Cell, *names: str) -> list[NDArray[np.int64]]:
        return self._home[id(cell)].arrays(cell, *names)


def _each_once(found: Sequence[tuple[Record, Store]]) -> list[tuple[Record, Store]]:
    newest: dict[tuple[str, str], tuple[Record, Store]] = {}
    for record, store in found:
        name = (record.label, record.cell.key)
        if name not in newest or record.finished_at > newest[name][0].finished_at:
            newest[name] = record, store
    return list(newest.values())
