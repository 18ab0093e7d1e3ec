"""Our methods compute what the authors' released code computed: see golden/README.md."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.support.traces import CASES, SETTINGS, Trace, golden_batches, in_order
from tta_bench import settings
from tta_bench.registry import installed


def assert_near(found: Tensor, expected: Tensor, what: str) -> None:
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0, msg=lambda why: f"{what}: {why}")


@pytest.mark.parametrize("case", CASES)
def test_trace(case: str) -> None:
    trace = Trace(case)
    method = trace.build()
    expected, observed = in_order(trace.tensors("logits/")), trace.tensors("extra/")
    for i, batch in enumerate(golden_batches()):
        assert_near(trace.adapt(method, batch), expected[i], f"batch {i}")
        if (fitness := observed.get(f"fitness/{i}")) is not None:
            mine = torch.as_tensor(getattr(method, "fitness", None), dtype=torch.float64)
            torch.testing.assert_close(mine, fitness.double(), rtol=1e-4, atol=0)
        if (mean := observed.get(f"feature_mean/{i}")) is not None:
            assert_near(method.adapted_state()["feature_mean"], mean, f"feature_mean after batch {i}")

    state, final = method.adapted_state(), trace.tensors("final/")
    if not trace.meta.get("final_is_sample"):
        assert set(state) == set(final)
    for name, value in {**final, **trace.tensors("last/")}.items():
        assert_near(state[name], value, name)
    if "resets" in trace.meta:
        assert method.resets == trace.meta["resets"]


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_have_the_names_of_the_traces(name: str) -> None:
    assert set(SETTINGS[name]) <= set(settings.defaults(installed().load(name)))


def test_every_case_of_the_readme_is_here() -> None:
    assert len(CASES) == 76
    assert {Trace(case).method for case in CASES} == set(SETTINGS)
