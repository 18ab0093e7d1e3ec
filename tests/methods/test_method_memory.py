"""Memory held for backward passes never exceeds that of the released code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.methods.test_method_reference import BATCHES, CLASSES, median_entropy, model
from tests.support.reference import SlowDpal, SlowEata, SlowSar
from tta_bench import build_method


class Meter:
    """Bytes of tensors that autograd holds for a backward pass: now, and at most."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def peak_of(self, method: Any) -> int:
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: Kept(tensor, self), lambda kept: kept.tensor):
            for batch in BATCHES:
                method.adapt(batch)
        return self.peak


class Kept:
    """A saved tensor that reports when it is released."""

    def __init__(self, tensor: Tensor, meter: Meter) -> None:
        self.tensor, self.meter = tensor, meter
        meter.now += tensor.nbytes
        meter.peak = max(meter.peak, meter.now)

    def __del__(self) -> None:
        self.meter.now -= self.tensor.nbytes


@pytest.mark.parametrize("name", ["eata", "sar", "dpal", "dpal-official"])
def test_no_more_memory_is_held_than_by_the_released_code(name: str) -> None:
    threshold = median_entropy()
    params: dict[str, Any] = {"lr": 0.01, "entropy_threshold": threshold}
    if name == "eata":
        params |= {"redundancy_threshold": 0.6, "fisher_weight": 2000.0}
    ours = build_method(name, model(), num_classes=CLASSES, batch_size=8, params=params)
    if name == "eata":
        ours.prepare(BATCHES[:2])
        slow: Any = SlowEata(model(), lr=0.01, threshold=threshold, redundancy=0.6, fisher_weight=2000.0)
    elif name == "sar":
        slow = SlowSar(model(), lr=0.01, threshold=threshold)
    else:
        score = "second" if name == "dpal-official" else "first"
        slow = SlowDpal(model(), ours.adapted_state(), lr=0.01, threshold=threshold, score=score, batch_size=8)
    assert 0 < Meter().peak_of(ours) <= Meter().peak_of(slow)
