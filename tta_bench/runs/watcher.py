"""Callbacks that follow a run's progress."""

from __future__ import annotations

from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec


class Watcher:
    """Progress callbacks of a run."""

    def on_start(self, spec: CellSpec, images: int) -> None:
        """A cell with this many images starts."""

    def on_cache(self, task: str, done: int, total: int) -> None:
        """This many of a task's images are decoded into the cache, which its first reader fills."""

    def on_batch(self, images: int, accuracy: float) -> None:
        """The cell has processed this many images, with this accuracy so far."""

    def on_wait(self, cells: int) -> None:
        """All cells that are left are run by other processes."""

    def on_queue(self, workers: int, why: str) -> None:
        """So many workers wait for a place on their cluster, and why, if it says so; 0 once none waits any more."""

    def on_warning(self, text: str) -> None:
        """A warning for readers of the results."""

    def on_record(self, record: Record, is_new: bool) -> None:
        """A cell has finished or failed, or was found in the store."""

    def of_worker(self, number: int) -> Watcher:
        """The watcher of what one of several workers does: it gets `on_start`, `on_batch` and `on_worker_end`."""
        return self

    def on_worker_end(self) -> None:
        """A worker has ended."""
