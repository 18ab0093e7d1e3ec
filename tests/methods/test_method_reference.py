"""The methods against the literal, slow ones of reference.py, on a model without golden traces."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.reference import SlowDpal, SlowEata, SlowSar
from tests.support.small import small_vit, stream
from tta_bench import Method, build_method

CLASSES = 100
BATCHES = stream(count=7, size=8, last=3)


def model() -> Any:
    return small_vit(seed=4, num_classes=CLASSES, embed_dim=32, num_heads=4)


def median_entropy() -> float:
    with torch.no_grad():
        log_p = model()(torch.cat(BATCHES)).log_softmax(1)
    return float(-(log_p.exp() * log_p).sum(1).median())


def assert_same_run(ours: Method, slow: Any, *, names: dict[str, Tensor]) -> None:
    for batch in BATCHES:
        torch.testing.assert_close(ours.adapt(batch), slow.adapt(batch), atol=1e-4, rtol=1e-4)
    state = ours.adapted_state()
    assert set(state) == set(names)
    for name, value in names.items():
        torch.testing.assert_close(state[name], value.detach(), atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize("score", ["first", "second"])
@pytest.mark.parametrize("reset", [0.2, 2.5])
def test_sar(score: str, reset: float) -> None:
    threshold = median_entropy()
    params = {"lr": 0.01, "entropy_threshold": threshold, "score": score, "reset_threshold": reset}
    ours = build_method("sar", model(), num_classes=CLASSES, params=params)
    slow = SlowSar(model(), lr=0.01, threshold=threshold, score=score, reset=reset)
    assert_same_run(ours, slow, names=slow.named)
    assert ours.resets == slow.resets
    assert (slow.resets > 0) == (reset > 1)


@pytest.mark.parametrize("reset", [0.2, 2.5])
@pytest.mark.parametrize("init", ["zeros", "default", "small"])
@pytest.mark.parametrize(("name", "tokens"), [("dpal", 1), ("dpal", 2), ("dpal-official", 1)])
def test_dpal(name: str, tokens: int, init: str, reset: float) -> None:
    threshold = median_entropy()
    params = {
        "lr": 0.01,
        "entropy_threshold": threshold,
        "predictor_init": init,
        "shift_tokens": tokens,
        "reset_threshold": reset,
        "seed": 5,
    }
    ours = build_method(name, model(), num_classes=CLASSES, batch_size=8, params=params)
    official = name == "dpal-official"
    slow = SlowDpal(
        model(),
        ours.adapted_state(),
        lr=0.01,
        threshold=threshold,
        score="second" if official else "first",
        batch_size=8 if official else None,
        reset=reset,
    )
    assert_same_run(ours, slow, names=slow.named)
    assert ours.resets == slow.resets


@pytest.mark.parametrize("fisher_weight", [0.0, 2000.0])
def test_eata(fisher_weight: float) -> None:
    threshold, source = median_entropy(), stream(count=3, size=8, last=5, seed=9)
    params = {"lr": 0.005, "entropy_threshold": threshold, "redundancy_threshold": 0.5}
    name = "eata" if fisher_weight else "eta"
    ours = build_method(name, model(), num_classes=CLASSES, params=params)
    slow = SlowEata(
        model(), lr=0.005, threshold=threshold, redundancy=0.5, fisher_weight=fisher_weight
    )  # fmt: skip
    if fisher_weight:
        ours.prepare(source)
        slow.prepare(source)
    assert_same_run(ours, slow, names=slow.named)
