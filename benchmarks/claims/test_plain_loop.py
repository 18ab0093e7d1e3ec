"""`tta-bench run` costs little more than a plain loop: CPU time and memory of all processes, as ratios.

The cases, their goals and how they are measured are in benchmarks/against_plain_loop.py. Measured once each, on a
machine that may be busy, so a tenth of tolerance is added; a goal that is missed is marked in the printed line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.against_plain_loop import (
    CASES,
    FINISHED_SECONDS,
    JOBS,
    LONGEST_WALL,
    WITNESS_SHARE,
    compare,
    finished_run,
    line,
    make_tree,
    two_jobs,
    witness_share,
)

NOISE = 0.1
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


def test_two_jobs_cost_little_more_than_one_or_than_two_loops(root: Path) -> None:
    ours, loops, found = two_jobs(root)
    print("\n" + found, flush=True)
    assert ours.cpu <= max(JOBS.cpu, loops.cpu) + NOISE
    assert ours.wall <= max(LONGEST_WALL, loops.wall) + NOISE


def test_a_finished_run_takes_a_second(root: Path) -> None:
    again, found = finished_run(root)
    print("\n" + found, flush=True)
    assert again.cpu <= FINISHED_SECONDS + NOISE  # its wall time is that of a machine with an idle core


def test_the_second_witness_is_a_small_share_of_the_demo() -> None:
    share, found = witness_share()
    print("\n" + found, flush=True)
    assert share <= WITNESS_SHARE
