"""Student's t and the sign test agree with scipy's."""

from __future__ import annotations

import pytest
from scipy.special import betainc, stdtr, stdtrit
from scipy.stats import binomtest

from tta_bench.measure.student import incomplete_beta, sign_test, t_below, t_quantile


@pytest.mark.parametrize("freedom", [1, 1.5, 2, 3.3, 10, 27.7, 1e3, 1e5])
def test_t_is_scipys(freedom: float) -> None:
    for t in (-40, -3, -1, -0.1, 0, 0.5, 2, 9):
        assert t_below(freedom, t) == pytest.approx(float(stdtr(freedom, t)), rel=1e-10)
    for p in (1e-6, 0.001, 0.025, 0.3, 0.5, 0.7, 0.975, 0.999):
        assert t_quantile(freedom, p) == pytest.approx(float(stdtrit(freedom, p)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("counts", [(0, 1), (3, 0), (5, 5), (10, 17), (17, 10), (400, 310), (25_000, 24_000)])
def test_the_sign_test_is_exact(counts: tuple[int, int]) -> None:
    assert sign_test(*counts) == pytest.approx(float(binomtest(counts[0], sum(counts)).pvalue), rel=1e-9)


def test_nothing_to_test_is_no_evidence() -> None:
    assert sign_test(0, 0) == 1.0


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.3, 0.9, 1.0])
def test_the_beta_function_is_scipys(x: float) -> None:
    assert incomplete_beta(2.5, 7.0, x) == pytest.approx(float(betainc(2.5, 7.0, x)), rel=1e-12)
