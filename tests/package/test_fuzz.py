"""Mutated files are refused in one line: no traceback, and no change is accepted silently."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.torture.fuzz import Bench, Figures, run


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    return Bench(folder)


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(random=st.randoms(use_true_random=False))
def test_no_mutation_is_a_traceback_or_goes_unnoticed(bench: Bench, random: Random) -> None:
    figures = Figures()
    bench.attack(random, figures)
    assert figures.is_clean, figures.to_dict()["first problems"]


@pytest.mark.slow
def test_many_mutations() -> None:
    found = run(2000, seed=1)
    assert (found["tracebacks"], found["silently accepted"], found["written outside"]) == (0, 0, 0), found
    assert found["refused"] > 1000
