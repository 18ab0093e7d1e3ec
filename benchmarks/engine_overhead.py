"""What an engine adds to a cell on a warm worker: choosing it, checking its identity, and saying what it does.

    OMP_NUM_THREADS=1 python -m benchmarks.engine_overhead

A worker of a job runs 12 cells of digits in this process. What counts is the time of the whole loop without the cells
themselves.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tta_bench.engines import loop
from tta_bench.engines.job import Entry, Job, JobFolder
from tta_bench.isolation.pool import Workers
from tta_bench.records.store import Store
from tta_bench.runs import execute
from tta_bench.runs.bind import Binder
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.runs.spec import specs
from tta_bench.suites import suite

OPTIONS = RunOptions(tasks=("contrast", "fog", "snow"), methods=("source", "tent"), seeds=(0, 1), limit=64)


class Timed(execute.Cells):
    """Counts the time of the cells themselves."""

    seconds = started = ended = 0.0

    def find_or_run(self, *given: Any, **more: Any) -> Any:
        start = time.perf_counter()
        Timed.started = Timed.started or start
        try:
            return super().find_or_run(*given, **more)
        finally:
            Timed.ended = time.perf_counter()
            Timed.seconds += Timed.ended - start


def main() -> None:
    torch.set_num_threads(1)
    site, asked = Site(device="cpu"), specs(suite.load("digits-c-5"), OPTIONS)
    binder = Binder(site)
    found = [binder.bind(spec).cell for spec in asked]
    cells = tuple(Entry(spec, 1.0, c.identity, c.hashes) for spec, c in zip(asked, found, strict=True))
    execute.Cells = Timed  # type: ignore[misc]
    for name in ("warm-up", "measured"):
        Timed.seconds = Timed.started = 0.0
        with tempfile.TemporaryDirectory() as home:
            store = Store.create(Path(home) / "run", "digits-c-5")
            loop.work(JobFolder.create(store, Job("local", 1, asdict(site), cells)), 0, Workers())
        own, count = Timed.ended - Timed.started - Timed.seconds, len(asked)
        print(f"{name}: {count} cells, {Timed.seconds / count:.3f} s each; the engine adds {own / count:.4f} s")


if __name__ == "__main__":
    main()
