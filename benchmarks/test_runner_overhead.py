"""The runner costs at most 2 % over a bare loop of `adapt` calls.

Both ways take turns in one process, so that a noisy machine slows them alike; the figure is a median of ratios.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import timm
import torch

from tests.records import make_cell
from tta_bench import build_method
from tta_bench.checkpoint import weights_hash
from tta_bench.images import ArrayImages
from tta_bench.loading import batches
from tta_bench.models import SourceModel
from tta_bench.runner import Work, run_cell
from tta_bench.scenarios import Part, make_stream

CPU = torch.device("cpu")
ROUNDS, BATCHES, BATCH = 9, 4, 16


def vit_tiny_work() -> Work:
    torch.manual_seed(0)
    network = timm.create_model("vit_tiny_patch16_224").eval()
    model = SourceModel("vit-tiny", network, 1000, (0.5,) * 3, (0.5,) * 3, weights_hash(network.state_dict()))
    pixels = np.random.default_rng(0).integers(0, 256, (BATCHES * BATCH, 3, 224, 224), dtype=np.uint8)
    ids = [str(i) for i in range(len(pixels))]
    images = ArrayImages(pixels, np.zeros(len(pixels), dtype=np.int64), ids)
    stream = make_stream("normal", "bench", 0, [Part("noise", images)])
    return Work("tent", make_cell("tent", batch_size=BATCH), stream, None, model, 1000, None, CPU)


def bare_loop(work: Work) -> float:
    model = work.model.fresh(CPU)
    method = build_method(work.cell.method, model, num_classes=1000, batch_size=BATCH)
    ready = [batch.clone() for batch in batches(work.stream.images, work.stream.batches(BATCH), CPU)]
    start = time.perf_counter()
    for batch in ready:
        method.adapt(batch)
    return time.perf_counter() - start


def runner_loop(work: Work) -> float:
    """Everything the runner does between building the method and closing the record, but loading."""
    start = time.perf_counter()
    record, _ = run_cell(work)
    whole = time.perf_counter() - start
    return whole - record.seconds["load"] - record.seconds["build"] - record.seconds["prepare"]


def test_runner_overhead() -> None:
    torch.set_num_threads(1)
    work = vit_tiny_work()
    bare_loop(work), runner_loop(work)
    ratios = []
    for i in range(ROUNDS):
        ways = (bare_loop, runner_loop) if i % 2 else (runner_loop, bare_loop)
        seconds = {way.__name__: way(work) for way in ways}
        ratios.append(seconds["runner_loop"] / seconds["bare_loop"])
    overhead = statistics.median(ratios) - 1
    print(f"\nrunner overhead over a bare loop: {100 * overhead:+.2f} % (median of {ROUNDS} rounds; at most 2 %)")
    assert overhead <= 0.02
