"""What an engine adds to a cell on a warm worker: choosing it, checking its key, and telling the coordinator.

    OMP_NUM_THREADS=1 python -m benchmarks.engine_overhead

A worker of a job runs 12 cells of digits in this process. What counts is the time of the whole loop without the cells
themselves, once for workers on this machine and once for those that check each cell's key first, as on Slurm and Ray.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from tta_bench.engines.job import Job, JobFolder
from tta_bench.engines.journal import Journal
from tta_bench.engines.tickets import Hints, bound_hints, tickets
from tta_bench.engines.work import JournalWatcher, Queue, _do
from tta_bench.records.store import Store
from tta_bench.runs.bind import Binder
from tta_bench.runs.execute import Cells
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.runs.spec import specs
from tta_bench.suites import suite

OPTIONS = RunOptions(tasks=("contrast", "fog", "snow"), methods=("source", "tent"), seeds=(0, 1), limit=64)


class Timed(Cells):
    """Counts the time of the cells themselves."""

    seconds = 0.0

    def find_or_run(self, *given: Any, **more: Any) -> Any:
        start = time.perf_counter()
        try:
            return super().find_or_run(*given, **more)
        finally:
            self.seconds += time.perf_counter() - start


def main() -> None:
    torch.set_num_threads(1)
    site, asked = Site(device="cpu"), specs(suite.load("digits-c-5"), OPTIONS)
    place = Binder(site)
    place.workers.warm_up()
    try:
        for name, hints in (("warm-up", Hints()), ("local", Hints()), ("slurm", bound_hints(asked, site))):
            with tempfile.TemporaryDirectory() as home:
                store = Store.create(Path(home) / "run", "digits-c-5")
                job = Job(name, 1, site.to_json(), tuple(tickets(asked, hints, [])[0]))
                folder = JobFolder.create(store, job)
                journal = Journal(folder.journal(0))
                cells, start = Timed(place, store, JournalWatcher(journal)), time.perf_counter()
                queue = Queue(folder, job, 0)
                while (ticket := queue.take()) is not None:
                    _do(ticket, cells, place, journal)
                total = time.perf_counter() - start
            own, count = total - cells.seconds, len(asked)
            print(f"{name}: {count} cells, {cells.seconds / count:.3f} s each; the engine adds {own / count:.4f} s")
    finally:
        place.workers.close()


if __name__ == "__main__":
    main()
