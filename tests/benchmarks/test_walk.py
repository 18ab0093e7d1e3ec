"""The way of a run through the modules does not grow unnoticed."""

from __future__ import annotations

import pytest

from benchmarks.walk import walks

MOST = {"run": 60, "run --jobs 2": 97, "finished run": 36}


@pytest.mark.slow
def test_a_run_passes_no_more_functions_than_it_did() -> None:
    for title, found in walks():
        assert len(found) <= MOST[title], f"{title}: {len(found)} hand-overs:\n" + "\n".join(found)
