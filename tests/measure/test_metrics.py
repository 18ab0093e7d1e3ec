"""Calibration error against hand-computed cases."""

from __future__ import annotations

import numpy as np
import pytest

from tta_bench.measure.metrics import expected_calibration_error


@pytest.mark.parametrize(
    ("confidence", "correct", "expected"),
    [
        ([1.0, 1.0], [True, True], 0.0),
        ([1.0, 1.0], [True, False], 0.5),
        ([0.9, 0.9, 0.3, 0.3], [True, True, False, False], 0.2),  # (2 x 0.1 + 2 x 0.3) / 4
        ([0.62, 0.64], [True, False], 0.13),  # one bin: |1.26 - 1| / 2
        ([], [], 0.0),
    ],
)
def test_expected_calibration_error(confidence: list[float], correct: list[bool], expected: float) -> None:
    found = expected_calibration_error(np.array(confidence), np.array(correct, dtype=bool))
    assert found == pytest.approx(expected)
