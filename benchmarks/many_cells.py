"""30 methods × 75 tasks × 5 seeds through the supervisor: its time per cell and its memory.

    python -m benchmarks.many_cells [WORKERS]

Cells are made up, and workers take turns in this process; their time is subtracted. Job files, records and claims are
real.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.engines import Made, make_specs, supervise
from tta_bench.engines.base import State
from tta_bench.engines.job import JobFolder
from tta_bench.records.store import Store

METHODS, TASKS, SEEDS = 30, 75, 5


class Timed(Made):
    """Counts the time that is the workers', not the supervisor's."""

    seconds = seconds_to_read = 0.0

    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        start = time.process_time()
        found = super().submit(job, workers)
        self.seconds_to_read = time.process_time() - start
        self.seconds += self.seconds_to_read
        return found

    def state(self, job: JobFolder) -> list[State]:
        start = time.process_time()
        found = super().state(job)
        self.seconds += time.process_time() - start
        return found


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    specs = make_specs(METHODS, TASKS, SEEDS)
    os.fsync = lambda file: None  # the disk is not what is measured
    with tempfile.TemporaryDirectory() as home:
        store = Store.create(Path(home) / "run", "s")
        engine, start = Timed(workers), time.process_time()
        records, lost = supervise(engine, store, specs)
        total = time.process_time() - start
        assert len(records) == len(specs)
        assert not lost
        files = sum(len(names) for _, _, names in os.walk(home))
        size = sum(path.stat().st_size for path in (Path(home) / "run" / "jobs").rglob("*") if path.is_file())
    own = total - engine.seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(specs):,} cells, {workers} workers")
    print(f"supervisor: {own:.1f} s, {1000 * own / len(specs):.2f} ms per cell")
    print(f"a worker reads the job file in {engine.seconds_to_read:.1f} s")
    print(f"workers' choice and saving: {1000 * engine.seconds / len(specs):.2f} ms per cell")
    print(f"peak memory {peak:.0f} MB; {files:,} files; job file and workers' files {size / 2**20:.1f} MB")


if __name__ == "__main__":
    main()
