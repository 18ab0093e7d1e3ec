"""The way of a run through the modules does not grow unnoticed."""

from __future__ import annotations

import pytest

from benchmarks.walk import KINDS, walk

MOST = {"run": 55, "run --jobs 2": 82, "finished run": 34}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_passes_no_more_functions_than_it_did(kind: str) -> None:
    found = walk(kind)
    assert MOST[kind] / 2 < len(found) <= MOST[kind], f"{len(found)} hand-overs:\n" + "\n".join(found)
