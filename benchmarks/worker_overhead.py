"""What a warm worker process costs: the same demo cells here and in a worker, in turns.

    OMP_NUM_THREADS=1 python -m benchmarks.worker_overhead [ROUNDS]

Prints a cell's time in a worker, from its first line to its record, as a ratio to its time in this process: on the
wall, and in seconds of CPU of both processes, which other jobs on the machine disturb less. Needs Linux.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

import torch

from tta_bench.isolation.host import Work, run_cell
from tta_bench.isolation.pool import Workers
from tta_bench.runs.bind import Binder
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.runs.spec import specs
from tta_bench.suites import suite

Seconds = tuple[float, float]  # on the wall, of CPU


def main(rounds: int) -> None:
    torch.set_num_threads(1)
    binder = Binder(Site(device="cpu"))
    asked = specs(suite.load("demo"), RunOptions(tasks=("snow",), methods=("source", "tent", "sar")))
    works = [binder.bind(spec) for spec in asked]
    here: dict[str, list[Seconds]] = {work.cell.spec.label: [] for work in works}
    there: dict[str, list[Seconds]] = {work.cell.spec.label: [] for work in works}
    with Workers() as workers:
        for number in range(rounds + 1):
            for work in works:
                sides = [(here, None), (there, workers)]
                for found, side in sides[:: 1 if number % 2 else -1]:  # whoever is first meets a colder machine
                    seconds = _run(work, side)
                    if number:  # the first round warms up
                        found[work.cell.spec.label].append(seconds)
    for label in here:
        print(f"{label:<9} wall {_ratios(here[label], there[label], 0)}, CPU {_ratios(here[label], there[label], 1)}")
    wall, cpu = (_total(there, part) / _total(here, part) for part in (0, 1))
    print(f"all cells wall {wall:.3f}, CPU {cpu:.3f}, in {rounds} rounds")


def _run(work: Work, workers: Workers | None) -> Seconds:
    began, spent = time.perf_counter(), _cpu(workers)
    if workers is None:
        run_cell(work)
    else:
        run_cell(work, adapt=workers.adapt)
    return time.perf_counter() - began, _cpu(workers) - spent


def _cpu(workers: Workers | None) -> float:
    """Seconds of CPU of this process, and of all threads of its warm worker."""
    worker = workers._warm if workers else None
    threads = Path(f"/proc/{worker._process.pid}/task").glob("*/schedstat") if worker else ()
    return time.process_time() + sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def _ratios(here: list[Seconds], there: list[Seconds], part: int) -> str:
    found = [two[part] / one[part] for one, two in zip(here, there, strict=True)]
    return f"{median(found):.3f} (from {min(found):.3f} to {max(found):.3f})"


def _total(found: dict[str, list[Seconds]], part: int) -> float:
    return sum(seconds[part] for rounds in found.values() for seconds in rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
