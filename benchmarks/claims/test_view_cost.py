"""What one adapt step of the methods with a teacher, views or destroyed images costs, in multiples of a plain forward.

As in test_adapt_cost.py: ViT-Tiny/16 at 224 px with random weights, batch 16, one thread, CPU time of the process; all
take turns with Source on the same batch. Views are rolled images, so that drawing them is not part of the figure, as in
the figures of the released code; the last column has the real ones. MEMO adapts to one image, its figure is still in
forwards of 16.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tta_bench import Method, build_method

BATCH, ROUNDS = 16, 4
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cotta, source model sure": ("cotta", {"lr": 0.0}),
    "cotta, 32 views": ("cotta", {"lr": 0.0}),
    "adacontrast": ("adacontrast", {"lr": 0.0, "warmup_samples": 16}),
    "memo, one image": ("memo", {"lr": 0.0}),
    "deyo, half reliable": ("deyo", {"lr": 0.0, "plpd_threshold": -2.0}),
}
LIMITS = {
    "cotta, source model sure": 4.3,
    "cotta, 32 views": 35.0,
    "adacontrast": 6.9,
    "memo, one image": 12.0,
    "deyo, half reliable": 2.4,
}
Step = Callable[[Tensor], Tensor]


def vit(head: float = 1.0) -> Any:
    """With a head that is `head` times as large: random weights are sure of nothing by themselves."""
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224")
    with torch.no_grad():
        model.head.weight.mul_(head)
    return model


def rolled(images: Tensor, count: int) -> Tensor:
    return torch.stack([images.roll(k, dims=-1) for k in range(count)])


def step(case: str, batch: Tensor, *, real_views: bool) -> Step:
    name, params = CASES[case]
    model = vit(head=500.0 if case.endswith("sure") else 1.0)
    method: Any = build_method(name, model, num_classes=1000, batch_size=BATCH, params=params)
    if not real_views and hasattr(method, "views"):
        method.views = rolled
    if name == "deyo":
        method.entropy_threshold = half_of(method, batch)
    if name == "memo":
        return lambda images: method.adapt(images[:1])
    adapt: Step = method.adapt
    return adapt


def half_of(method: Method, batch: Tensor) -> float:
    """The entropy that half of the samples are below."""
    log_p = method.predict(batch).log_softmax(1)
    return float((-(log_p.exp() * log_p).sum(1)).sort().values[BATCH // 2 - 1 : BATCH // 2 + 1].mean())


def cpu_seconds(adapt: Step, batch: Tensor) -> float:
    start = time.process_time()
    adapt(batch)
    return time.process_time() - start


def ratio(case: str, *, real_views: bool, rounds: int) -> float:
    """The median over rounds of a step's time over that of a plain forward in the same round."""
    batch = torch.rand(BATCH, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    source: Step = build_method("source", vit(), num_classes=1000, batch_size=BATCH).adapt
    adapt = step(case, batch, real_views=real_views)
    for each in (source, adapt, adapt):
        each(batch)
    pairs = [(cpu_seconds(source, batch), cpu_seconds(adapt, batch), cpu_seconds(source, batch)) for _ in range(rounds)]
    return statistics.median(2 * mine / (before + after) for before, mine, after in pairs)


@pytest.mark.parametrize("case", CASES)
def test_step_costs_no_more_than_its_limit(case: str) -> None:
    torch.set_num_threads(1)
    found = ratio(case, real_views=False, rounds=ROUNDS)
    shown = Table(title="adapt step, multiples of Source's forward of 16 images", box=box.SIMPLE_HEAD)
    for column in ("case", "ratio", "limit", "with real views"):
        shown.add_column(column)
    shown.add_row(case, f"{found:.2f}", f"{LIMITS[case]}", f"{ratio(case, real_views=True, rounds=2):.2f}")
    Console(width=100).print(shown)
    assert found <= LIMITS[case]
