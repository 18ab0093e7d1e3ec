"""The collapse alarm of running cells: a warning at the batch at which it goes off, not at the end of the stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tta_bench.isolation.host import Work
from tta_bench.measure.collapse import Alarm
from tta_bench.papers.baseline import BASELINE
from tta_bench.records.cell import Cell
from tta_bench.records.store import Store
from tta_bench.runs.resume import is_finished
from tta_bench.runs.watcher import Watcher


class Alarms:
    """Makes the alarm of each cell of a folder."""

    def __init__(self, store: Store, watcher: Watcher) -> None:
        self._store, self._watcher = store, watcher
        self._last: tuple[tuple[str, str], NDArray[np.int32] | None] = ("", ""), None  # a stream, Source's classes

    def of(self, work: Work) -> CellAlarm:
        source = None if work.cell.spec.method == BASELINE else self._source(work.cell)
        return CellAlarm(work, source, self._watcher)

    def _source(self, cell: Cell) -> NDArray[np.int32] | None:
        """Source's classes on the same stream; None if it has not run yet."""
        stream = cell.spec.suite, cell.found.stream
        if self._last[0] != stream:  # the methods of a stream follow each other
            source = self._store.find_all(BASELINE, cell.name, cell.spec.seed)
            same = [record for record in source if record.cell.found.stream == cell.found.stream]
            done = [record for record in same if is_finished(record, self._store)]
            if not done:
                return None
            self._last = stream, self._store.predictions(done[0]).whole("prediction")
        return self._last[1]


class CellAlarm:
    """Follows a cell batch by batch. Silent where Source has not run on the same stream."""

    def __init__(self, work: Work, source: NDArray[np.int32] | None, watcher: Watcher) -> None:
        self._name = f"{work.cell.spec.label} on {work.cell.name}, seed {work.cell.spec.seed}"
        self._batches = -(-len(work.stream.order) // work.setup.batch_size)
        self._source, self._watcher = source, watcher
        self._alarm: Alarm | None = None
        self._said: int | None = None  # the batch of the collapse that was reported
        self.raised: BaseException | None = None  # by the watcher, most likely: not the method's failure

    def on_batch(self, images: int, accuracy: float, prediction: NDArray[np.int32]) -> None:
        try:
            self._follow(images, accuracy, prediction)
        except BaseException as error:
            self.raised = error
            raise

    def _follow(self, images: int, accuracy: float, prediction: NDArray[np.int32]) -> None:
        self._watcher.on_batch(images, accuracy)
        if self._source is None:
            return
        if self._alarm is None or images == len(prediction):  # a cell whose process died starts again
            self._alarm = Alarm(self._source)
        self._alarm.add(prediction)
        if self._said is None:
            self._say_collapse(self._alarm)

    def end(self) -> None:
        """The stream is over: correct what was said, if it no longer holds."""
        if self._alarm is None or self._said == self._alarm.since:
            return
        if self._alarm.since is None:
            self._watcher.on_warning(f"{self._name} recovered from its collapse before the stream ended")
        else:
            self._say_collapse(self._alarm)

    def _say_collapse(self, alarm: Alarm) -> None:
        if alarm.since is not None and alarm.signals is not None:
            self._said = alarm.since
            self._watcher.on_warning(
                f"{self._name} collapsed at batch {alarm.since + 1} of {self._batches}: "
                f"{100 * alarm.signals.share:.0f} % of its last {alarm.window} predictions are the same class"
            )
