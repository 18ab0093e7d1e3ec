"""The cost of one adapt step of the paper's methods that filter, by the share of samples that they keep.

As multiples of a plain forward; test_method_cost.py measures the other methods. ViT-Tiny/16 at 224 px with random
weights, batch 16. All methods and Source take turns on the same batch in one process, in alternating order, so that a
noisy machine slows them alike; the figure is the median of the ratios of the process's CPU time, on one thread. The
share of reliable samples is forced: each batch gets the entropy threshold that keeps that many, and learning rates and
rho of zero keep it constant, at the same cost.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field

import pytest
import timm
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tta_bench import Method, build_method
from tta_bench.measure.cost import CostCounter

BATCH, ROUNDS, THREADS = 16, 4, 1
RELIABLE = {0.5: (8, 8, 8, 8, 8), 0.1: (2, 1, 2, 1, 2)}  # of 16 in each of five batches
LIMITS = {
    0.5: {"tent": 2.45, "eata": 2.3, "sar": 3.7, "dpal": 4.2, "dpal-official": math.inf},
    0.1: {"tent": 2.45, "eata": 1.5, "sar": 1.8, "dpal": 3.2, "dpal-official": math.inf},
}
PARAMS: dict[str, dict[str, float]] = {
    "tent": {"lr": 0.0},
    "eata": {"lr": 0.0, "redundancy_threshold": 2.0},
    "sar": {"lr": 0.0, "rho": 0.0},
    "dpal": {"lr": 0.0, "rho": 0.0},
    "dpal-official": {"lr": 0.0, "rho": 0.0},
}


@dataclass
class Contender:
    """A method, the threshold that each batch needs, and what was measured."""

    method: Method
    thresholds: list[float] = field(default_factory=list)
    seconds: dict[tuple[int, int], float] = field(default_factory=dict)  # by turn and batch
    forwards: float = 0.0
    backwards: float = 0.0

    def run(self, i: int, batch: Tensor) -> float:
        if self.thresholds:
            self.method.entropy_threshold = self.thresholds[i]  # type: ignore[attr-defined]
        start = time.process_time()
        self.method.adapt(batch)
        return time.process_time() - start


def contender(name: str, batches: list[Tensor], reliable: tuple[int, ...]) -> Contender:
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224")
    made = Contender(build_method(name, model, num_classes=1000, batch_size=BATCH, params=PARAMS.get(name, {})))
    if made.method.needs_source:
        made.method.prepare(batches[:1])
    if hasattr(made.method, "entropy_threshold"):
        made.thresholds = [_threshold(made.method, b, k) for b, k in zip(batches, reliable, strict=True)]
        made.method.reset()
    with CostCounter(made.method.model) as count:
        for i, batch in enumerate(batches):  # also warms up
            made.run(i, batch)
    images = sum(map(len, batches))
    made.forwards, made.backwards = count.sample_forwards / images, count.sample_backwards / images
    return made


def _threshold(method: Method, batch: Tensor, reliable: int) -> float:
    """The entropy between the `reliable` most certain samples and the rest, at the logits that the method sees."""
    method.entropy_threshold = 0.0  # type: ignore[attr-defined]
    log_p = method.adapt(batch).log_softmax(1)
    entropies = (-(log_p.exp() * log_p).sum(1)).sort().values
    return float(entropies[reliable - 1 : reliable + 1].mean())


def measure(share: float, rounds: int, names: list[str]) -> dict[str, Contender]:
    generator = torch.Generator().manual_seed(1)
    batches = [torch.rand(BATCH, 3, 224, 224, generator=generator) for _ in RELIABLE[share]]
    contenders = {name: contender(name, batches, RELIABLE[share]) for name in names}
    for turn in range(rounds):
        order = list(contenders.items())[:: 1 if turn % 2 else -1]
        for i, batch in enumerate(batches):
            for _, each in order:
                each.seconds[turn, i] = each.run(i, batch)
    return contenders


def ratio(contenders: dict[str, Contender], name: str) -> float:
    """A method's time as a multiple of Source's on the same batch in the same turn; the median over all."""
    base = contenders["source"].seconds
    return statistics.median(mine / base[key] for key, mine in contenders[name].seconds.items())


def table(share: float, contenders: dict[str, Contender]) -> Table:
    shown = Table(
        title=f"adapt step with {share:.0%} reliable samples, multiples of Source's forward", box=box.SIMPLE_HEAD
    )
    for column in ("method", "ratio", "limit", "forwards/image", "backwards/image", "ms/batch"):
        shown.add_column(column, justify="left" if column == "method" else "right")
    for name, each in contenders.items():
        shown.add_row(
            name,
            f"{ratio(contenders, name):.2f}",
            f"{LIMITS[share].get(name, math.inf)}".replace("inf", "–"),
            f"{each.forwards:.2f}",
            f"{each.backwards:.2f}",
            f"{statistics.median(each.seconds.values()) * 1e3:.0f}",
        )
    return shown


@pytest.mark.parametrize("share", list(RELIABLE))
def test_adapt_step_costs_no_more_than_its_limit(share: float) -> None:
    torch.set_num_threads(THREADS)
    contenders = measure(share, ROUNDS, ["source", *LIMITS[share]])
    Console(width=120).print(table(share, contenders))
    over = {name: ratio(contenders, name) for name, limit in LIMITS[share].items() if ratio(contenders, name) > limit}
    assert not over
