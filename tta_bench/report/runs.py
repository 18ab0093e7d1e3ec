"""Several run folders as one: their records, each once and each checked against its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tta_bench import notes
from tta_bench.errors import UserError
from tta_bench.measure.collapse import WINDOW
from tta_bench.measure.verified import verified
from tta_bench.notes import Note, warning
from tta_bench.packed.address import Address, run_folder
from tta_bench.records.cell import Cell
from tta_bench.records.predictions import Predictions
from tta_bench.records.reading import REDO
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report.current import recency
from tta_bench.report.visits import of_tasks

Truth = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]  # index, label and whether a task has it


@dataclass(frozen=True)
class Outline:
    """Each sample of a stream's tasks, in its order."""

    index: NDArray[np.int32]  # which image
    label: NDArray[np.int32]
    correct: NDArray[np.bool_]


class Runs:
    """The records of run folders, packed or not. Numbers that follow from predictions are recomputed, not trusted.

    A cell that is in several folders counts once; the same cell with other results is refused.
    """

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.stores = [Store.open(run_folder(address)) for address in addresses]
        found = _each_once([(record, store) for store in self.stores for record in store.records()])
        self.records = [record for record, _ in found]
        self._home = {record.cell.key: (record, store) for record, store in found}
        self._truth: dict[tuple[str, str], Truth] = {}
        self._correct: dict[str, NDArray[np.uint8]] = {}  # a bit for each image
        self._endings: dict[str, NDArray[np.int32]] = {}
        for record, store in found:
            if record.status == "done":
                self._check(record, store)

    def warnings(self) -> list[Note]:
        """What a reader must know about the weights of these records."""
        used = {record.cell.found.weights for record in self.records}
        noted = [pair for store in self.stores for pair in store.warnings().items()]
        texts = dict.fromkeys(text for weights, text in noted if text and weights in used)
        return [warning(notes.read(text).text) for text in texts]

    def chosen(self) -> list[Note]:
        """How the settings of these records' rows were chosen, where a command said so."""
        commands = [command for store in self.stores for command in store.past_commands()]
        said = {label: text for command in commands for label, text in command.chosen.items()}
        shown = dict.fromkeys(record.label for record in self.records)
        return [notes.read(said[label]) for label in shown if label in said]

    def predictions(self, cell: Cell) -> Predictions:
        record, store = self._home[cell.key]
        return store.predictions(record)

    def outline(self, cell: Cell) -> Outline:
        """What the page needs to know about a cell's predictions."""
        index, label, of_task = self._stream(cell)
        return Outline(index[of_task], label[of_task], self.correct(cell))

    def ending(self, cell: Cell) -> NDArray[np.int32]:
        """The predictions of the last images: all that is needed to see that a stream has not collapsed."""
        return self._endings[cell.key]

    def index(self, cell: Cell) -> NDArray[np.int32]:
        """Which image each sample of the stream's tasks is; the same for every method."""
        index, _, of_task = self._stream(cell)
        return index[of_task]

    def correct(self, cell: Cell) -> NDArray[np.bool_]:
        """Whether each prediction on the stream's tasks was right, in stream order."""
        if cell.key not in self._correct:
            self.predictions(cell)  # a failed cell has none, and this says so
        of_task = self._stream(cell)[2]
        return np.unpackbits(self._correct[cell.key], count=len(of_task)).astype(bool)[of_task]

    def _stream(self, cell: Cell) -> Truth:
        return self._truth[cell.spec.suite, cell.found.stream]

    def _check(self, record: Record, store: Store) -> None:
        """Refuse a record whose scores its predictions do not give, or that saw other labels than its neighbours."""
        where = store.prediction_file(record.cell)
        predictions, wrong = verified(record, store)
        if wrong:
            raise UserError(f"{where.with_suffix('.json')}: {wrong}: {REDO}")
        truth = predictions.index, predictions.label, of_tasks(predictions, record)
        known = self._truth.setdefault((record.cell.spec.suite, record.cell.found.stream), truth)
        if not all(np.array_equal(own, other) for own, other in zip(truth, known, strict=True)):
            raise UserError(
                f"{where}: its images or labels differ from those of other records of this stream: "
                f"delete it and its .json, and run the same command again"
            )
        self._correct[record.cell.key] = np.packbits(predictions.correct)
        self._endings[record.cell.key] = predictions.whole("prediction")[-WINDOW:].copy()


def _each_once(found: Sequence[tuple[Record, Store]]) -> list[tuple[Record, Store]]:
    """Each cell once per label, finished rather than failed; the same cell with other predictions is a UserError."""
    newest: dict[tuple[str, str], tuple[Record, Store]] = {}
    results: dict[str, tuple[str, Store]] = {}
    for record, store in found:
        key = record.cell.key
        if record.status == "done":
            seen, other = results.setdefault(key, (record.predictions, store))
            if seen != record.predictions:
                raise UserError(
                    f"{record.cell.slug}: {other.folder} and {store.folder} hold other results of the same cell: "
                    f"report them apart, or run it again with --fresh"
                )
        name = (record.label, key)
        if name not in newest or _rank(record) > _rank(newest[name][0]):
            newest[name] = record, store
    return list(newest.values())


def _rank(record: Record) -> tuple[bool, str]:
    return record.status == "done", recency(record)
