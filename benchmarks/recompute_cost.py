"""What it costs that tables recompute scores from predictions: seconds of CPU per 1,000 cells.

    OMP_NUM_THREADS=1 python -m benchmarks.recompute_cost [IMAGES]

Reads the same made-up folder with and without its predictions, in turns, and takes the fastest of five readings.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from tests.support.records import changed, keep, make_record
from tta_bench.records.reading import _read_once
from tta_bench.records.store import Store
from tta_bench.report.runs import Runs

CELLS, ROUNDS = 500, 5


def main(images: int) -> None:
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "run", "s")
        for seed in range(CELLS):
            keep(store, changed(make_record("source", seed=seed), samples=images))
        for _ in range(ROUNDS):
            for recomputes, found in seconds.items():
                _read_once.cache_clear()
                with patch.object(Runs, "_check", Runs._check if recomputes else lambda *given: None):
                    began = time.process_time()
                    Runs([store.folder])
                    found.append(time.process_time() - began)
    with_them, without = (1000 / CELLS * min(seconds[recomputes]) for recomputes in (True, False))
    print(
        f"{images:,} images a cell: {with_them:.2f} s per 1,000 cells, {without:.2f} s without their predictions: "
        f"{with_them - without:.2f} s more"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
