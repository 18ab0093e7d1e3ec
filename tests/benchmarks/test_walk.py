"""The way of a run through the modules does not grow unnoticed."""

from __future__ import annotations

import pytest

from benchmarks.walk import walk


@pytest.mark.slow
def test_a_run_passes_no_more_functions_than_it_did() -> None:
    found = walk("run")
    assert 40 < len(found) <= 67, f"{len(found)} hand-overs, expected at most 67:\n" + "\n".join(found)
