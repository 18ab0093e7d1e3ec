"""`tta-bench run` costs little more than a plain loop: CPU time and memory of all processes, as ratios.

The cases, their goals and how they are measured are in benchmarks/against_plain_loop.py. Measured once each, on a
machine that may be busy, so a tenth of tolerance is added; a goal that is missed is marked in the printed line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.against_plain_loop import CASES, Case, command, compare, line, make_tree, measure

NOISE = 0.1
JOBS = Case("source,tent", 128, cpu=1.10, memory=3, tasks="fog,snow")
LONG = "Source, 10,000 images"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("tree"), 1)


@pytest.mark.parametrize("title", [title for title in CASES if title != LONG])
def test_a_run_costs_little_more_than_a_plain_loop(root: Path, title: str) -> None:
    case = CASES[title]
    cpu, memory, pairs = compare(root, case)
    print("\n" + line(title, case, cpu, memory, pairs), flush=True)
    assert cpu <= case.cpu + NOISE
    assert memory <= case.memory + NOISE


def test_two_jobs_cost_little_more_cpu_time_than_one(root: Path) -> None:
    one, two = measure(command(root, JOBS)), measure(command(root, JOBS, "--jobs", "2"))
    ratio, wall = two.cpu / one.cpu, two.wall / one.wall
    print(f"\n--jobs 2: {two.cpu:.1f} s / {one.cpu:.1f} s of CPU time = {ratio:.2f}, wall {wall:.2f}", flush=True)
    assert ratio <= JOBS.cpu + NOISE
