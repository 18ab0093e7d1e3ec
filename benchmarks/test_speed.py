"""Times on this machine: the adapt step of every registered method, the loader, the runner, the report.

`make bench` prints one table and saves it under .benchmarks/ with machine and commit. Times of two runs are not
comparable on a shared machine; claims are ratios, tested in benchmarks/claims/ and by `tta-bench timing check`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from pytest_benchmark.fixture import BenchmarkFixture
from rich.console import Console
from torch import Tensor, nn

from tests.support.records import make_record
from tests.support.small import BATCHNORM_ONLY
from tta_bench import Method, build_method, settings
from tta_bench.data.loading import batches
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.transform import Transform
from tta_bench.isolation.host import run_cell
from tta_bench.models import source as models
from tta_bench.registry import installed
from tta_bench.report import render
from tta_bench.report.rows import compare
from tta_bench.report.tables import layout
from tta_bench.runs.bind import Binder
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.runs.spec import specs
from tta_bench.suites import suite

THREADS = 1
CPU = torch.device("cpu")
# Random images are rarely reliable, and repeated ones are redundant: these thresholds keep all, to time whole steps.
KEEP_ALL = {"entropy_threshold": 10.0, "redundancy_threshold": 2.0}


def vit_tiny() -> tuple[nn.Module, int, Tensor]:
    """224 px with random weights, a batch of 16."""
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224").eval(), 1000, torch.rand(16, 3, 224, 224)


def digits_vit() -> tuple[nn.Module, int, Tensor]:
    """The embedded model at 32 px, a batch of 32."""
    torch.manual_seed(0)
    return models.load("digits-vit").fresh(CPU), 10, torch.rand(32, 3, 32, 32)


MODELS: dict[str, Callable[[], tuple[nn.Module, int, Tensor]]] = {"vit-tiny-224": vit_tiny, "digits-vit": digits_vit}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(THREADS)


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("name", [name for name in installed().names() if name not in BATCHNORM_ONLY])
def test_adapt(name: str, model: str, benchmark: BenchmarkFixture) -> None:
    network, classes, batch = MODELS[model]()
    known = settings.defaults(installed().load(name))
    everything = {key: value for key, value in KEEP_ALL.items() if key in known}
    method: Method = build_method(name, network, num_classes=classes, batch_size=len(batch), params=everything)
    if method.needs_source:
        method.prepare([batch])
    benchmark.extra_info["images"] = len(batch)
    benchmark.pedantic(method.adapt, (batch,), rounds=5, warmup_rounds=1)


def test_loader_of_50_jpegs(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    ids = [f"{i}.JPEG" for i in range(50)]
    for name in ids:
        small = chance.integers(0, 256, (28, 28, 3), dtype=np.uint8)
        Image.fromarray(small).resize((224, 224)).save(tmp_path / name, quality=88)
    images = FolderImages(tmp_path, ids, np.zeros(50, dtype=np.int64), Transform(224, 224))
    benchmark(lambda: list(batches(images, [np.arange(50)], CPU, workers=0)))


def test_runner_of_20_batches_around_a_method_that_does_nothing(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What remains is the runner's own time."""
    source = installed().load("source")
    monkeypatch.setattr(source, "adapt", lambda self, batch: torch.zeros(len(batch), 10))
    requests = specs(suite.load("digits-c-5"), RunOptions(methods=("source",), seeds=(0,)))
    work = Binder(Site(device="cpu", readers=0)).bind(requests[0])
    benchmark.pedantic(run_cell, (work,), rounds=5, warmup_rounds=1)


def test_report_of_180_cells(benchmark: BenchmarkFixture) -> None:
    tasks = suite.load("digits-c-5").tasks
    records = [make_record(f"m{m}", 0.5 + m / 100, task=task) for m in range(12) for task in tasks]

    def report() -> None:
        for table in layout(compare(records)).values():
            render.show(table, Console(file=io.StringIO()))
            render.markdown(table)

    benchmark.pedantic(report, rounds=3)
