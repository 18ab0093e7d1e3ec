"""What a warm worker process costs: the same demo cells here and in a worker, in turns.

    OMP_NUM_THREADS=1 python -m benchmarks.worker_overhead [ROUNDS]

Prints the wall time of a cell, from its first line to its record, as a ratio of worker to this process.
"""

from __future__ import annotations

import sys
import time
from statistics import median

import torch

from tta_bench.runs.bind import Binder
from tta_bench.runs.choices import Choices
from tta_bench.runs.runner import run_cell
from tta_bench.runs.site import Site
from tta_bench.runs.spec import specs
from tta_bench.runs.workers import Workers
from tta_bench.suites import suite


def main(rounds: int) -> None:
    torch.set_num_threads(1)
    place = Binder(Site(device="cpu"))
    asked = specs(suite.load("demo"), Choices(tasks=("snow",), methods=("source", "tent", "sar")))
    works = [place.bind(spec) for spec in asked]
    ratios: dict[str, list[float]] = {work.label: [] for work in works}
    totals = [0.0, 0.0]
    with Workers() as workers:
        for number in range(rounds + 1):  # the first round warms up
            for work in works:
                seconds = []
                for adapt in (None, workers.adapt):
                    began = time.perf_counter()
                    if adapt is None:
                        run_cell(work)
                    else:
                        run_cell(work, adapt=adapt)
                    seconds.append(time.perf_counter() - began)
                if number:
                    ratios[work.label].append(seconds[1] / seconds[0])
                    totals = [total + one for total, one in zip(totals, seconds, strict=True)]
    for label, found in ratios.items():
        print(f"{label:<8} {median(found):.3f} (from {min(found):.3f} to {max(found):.3f})")
    print(f"all cells {totals[1] / totals[0]:.3f} in {rounds} rounds")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
