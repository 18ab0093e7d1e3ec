"""The runner costs at most 2 % over a bare loop of `adapt` calls, and a part of a batch at the end of a cell.

Three parts. What the runner does between steps is timed inside one run, so noise affects both alike: everything from
the first line of `run_cell` to its record, except loading, building, the steps themselves and the last part. What hooks
and clocks add to a step is the ratio of steps with and without them, taken side by side. At the end of a cell the
second witness (measure/flops.py) adapts again to one in a hundred images, but to two at least, as in this short stream.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pytest
import timm
import torch

from tests.support.records import make_cell
from tta_bench.data.images import ArrayImages
from tta_bench.data.loading import batches
from tta_bench.isolation.adapter import Adapter, Setup
from tta_bench.isolation.host import Work, run_cell
from tta_bench.measure import flops
from tta_bench.measure.clock import Stopwatch
from tta_bench.measure.cost import CostCounter
from tta_bench.models.source import SourceModel
from tta_bench.streams.scenarios import Normal
from tta_bench.streams.stream import Part, make_stream
from tta_bench.timing.measure import Pair, Step

CPU = torch.device("cpu")
LIMIT = 0.02
WITNESS = 0.8  # steps: a forward and a step of two of eight images, and what counting adds to both
PASSES, BATCHES, BATCH = 4, 16, 8  # shorter than the stream of any suite: what a cell costs once weighs most here


def vit_tiny_work() -> Work:
    torch.manual_seed(0)
    network = timm.create_model("vit_tiny_patch16_224").eval()
    model = SourceModel("vit-tiny", network, 1000, (0.5,) * 3, (0.5,) * 3, "random")
    pixels = np.random.default_rng(0).integers(0, 256, (BATCHES * BATCH, 3, 224, 224), dtype=np.uint8)
    ids = [str(i) for i in range(len(pixels))]
    images = ArrayImages(pixels, np.zeros(len(pixels), dtype=np.int64), ids)
    stream = make_stream(Normal(), "bench", 0, [Part("noise", images)])
    return Work(make_cell("tent", batch_size=BATCH), Setup("tent", {}, model, 1000, None, BATCH, CPU), stream)


def overhead(work: Work, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """The runner's own time as a share of the time of the steps, and that of the second witness in steps."""
    witness, count = Stopwatch(CPU), flops.uncounted_forwards

    def timed(*given: Any) -> float:
        with witness:
            return count(*given)

    with monkeypatch.context() as patch:
        patch.setattr(flops, "uncounted_forwards", timed)
        start = time.perf_counter()
        record, _ = run_cell(work)
        whole = time.perf_counter() - start
    apart = witness.total + sum(record.measured.seconds[part] for part in ("adapt", "load", "build", "prepare"))
    steps = record.measured.seconds["adapt"]
    return (whole - apart) / steps, witness.total / (steps / BATCHES)


def steps(work: Work, *, watched: bool) -> Step:
    adapter = Adapter(work.setup)
    ready = [batch.clone() for batch in batches(work.stream.images, work.stream.batches(BATCH), CPU)]

    def bare(number: int) -> float:
        start = time.perf_counter()
        adapter.adapt(ready[number])
        return time.perf_counter() - start

    def as_the_runner_does(number: int) -> float:
        start = time.perf_counter()
        with CostCounter(adapter.model), Stopwatch(CPU):
            adapter.adapt(ready[number])
        return time.perf_counter() - start

    return as_the_runner_does if watched else bare


def test_runner_overhead(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    work = vit_tiny_work()
    run_cell(work)
    found = [overhead(work, monkeypatch) for _ in range(3)]
    between, witness = (statistics.median(part) for part in zip(*found, strict=True))
    pair = Pair("runner", steps(work, watched=False), steps(work, watched=True))
    for _ in range(PASSES):
        pair.run(BATCHES)
    within = pair.ratio
    print(
        f"\nrunner overhead over a bare loop, {BATCHES} batches of {BATCH}: {between:.2%} between steps; steps take "
        f"{within.value:.4f} times as long ({within.low:.4f} to {within.high:.4f}); at most {LIMIT:.0%} together; "
        f"the second witness takes {witness:.2f} steps"
    )
    assert between + max(0.0, within.low - 1) <= LIMIT
    assert witness <= WITNESS
