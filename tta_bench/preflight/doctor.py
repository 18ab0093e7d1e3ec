"""`tta-bench doctor`: whether this machine's GPU gives what a CPU gives, and what its switches and clocks do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor, nn

from tta_bench import gpus, registry, simulated
from tta_bench.data import loading
from tta_bench.errors import UserError, reason
from tta_bench.isolation.adapter import Adapter, read, source_batches, source_labels
from tta_bench.measure import environment
from tta_bench.measure.clock import EventWatch, Stopwatch
from tta_bench.measure.process import restored
from tta_bench.records.spec import CellSpec
from tta_bench.runs.bind import shared_binder
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.runs.spec import Row, spec_of
from tta_bench.suites import suite as suites

BATCH, IMAGES, SOURCE = 8, 16, 2  # images of a batch and of a stream, batches of source images
SHARE = 0.02  # of predictions that may differ where sums are taken in another order, but always one
FLOAT32, TF32 = 1e-5, 5e-3  # relative error of a product of 256 terms, with the bits of each
CLOCKS = 0.2, 2e-3  # share and seconds by which two clocks may differ


@dataclass(frozen=True)
class Comparison:
    """One thing on a GPU beside the same on a CPU."""

    what: str
    ok: bool | None  # None: not judged, for a reason that the text gives
    text: str


@dataclass(frozen=True)
class Doctor:
    """Compares one GPU with the CPU."""

    device: torch.device
    with_batchnorm: Callable[[], nn.Module]  # makes a network for methods that refuse the embedded transformer

    def results(self) -> Iterator[Comparison]:
        """All comparisons, one by one; methods take most of the time."""
        yield from self._products()
        yield self._overlap()
        yield self._clocks()
        suite = suites.load(suites.SMALL)
        options = RunOptions(suite=suite, limit=IMAGES, batch_size=BATCH)
        for name in registry.installed().names():
            row = Row(name, name, dict(suite.methods.get(name, {})))
            yield self._method(spec_of(suite, options, row, tuple(suite.tasks[:1]), 0))

    def _products(self) -> Iterator[Comparison]:
        """Errors of products and convolutions, with TF32 off and on."""
        generator = torch.Generator().manual_seed(0)
        a, b = torch.randn(2, 256, 256, generator=generator)
        images, weights = torch.randn(4, 16, 16, 16, generator=generator), torch.randn(8, 16, 4, 4, generator=generator)
        for tf32, bound in ((False, FLOAT32), (True, TF32)):
            with restored():
                environment.start(self.device, tf32=tf32)
                product = a.to(self.device) @ b.to(self.device)
                convolved = torch.conv2d(images.to(self.device), weights.to(self.device))
            exact = a.double() @ b.double(), torch.conv2d(images.double(), weights.double())
            errors = [_error(found, right) for found, right in zip((product, convolved), exact, strict=True)]
            text = f"relative error {errors[0]:.1e} of products, {errors[1]:.1e} of convolutions (at most {bound:.0e})"
            yield Comparison(f"TF32 {'on' if tf32 else 'off'}", max(errors) <= bound, text)

    def _overlap(self) -> Comparison:
        """Whether the next batch is copied while this one is processed; a slow copy is no mistake."""
        environment.start(self.device)
        host = [torch.randint(0, 255, (32, 3, 64, 64), dtype=torch.uint8) for _ in range(4)]
        seconds, totals = [], []
        for ahead in (False, True):
            started = time.perf_counter()
            plain = (batch.to(self.device).float().div_(255) for batch in host)
            batches = loading.on_device(iter(host), self.device) if ahead else plain
            totals.append([float(batch.square().sum()) for batch in batches])
            seconds.append(time.perf_counter() - started)
        text = f"4 batches in {1e3 * seconds[1]:.1f} ms, one by one {1e3 * seconds[0]:.1f} ms"
        return Comparison("copies ahead", totals[0] == totals[1], text)

    def _clocks(self) -> Comparison:
        """The wall clock of cells beside CUDA's events."""
        environment.start(self.device)
        square = torch.rand(512, 512, device=self.device)
        watches = Stopwatch(self.device), EventWatch(self.device)
        for watch in watches:
            for _ in range(4):  # the first warms up
                with watch:
                    for _ in range(10):
                        square @ square
        wall, events = (min(watch.laps[1:]) for watch in watches)
        text = f"{1e3 * wall:.2f} ms by the clock, {1e3 * events:.2f} ms by events"
        if simulated.is_on():
            return Comparison("timer", None, f"{text}; both are this CPU's, so their distance is noise")
        ok = abs(wall - events) <= max(CLOCKS[0] * wall, CLOCKS[1])
        return Comparison("timer", ok, f"{text} (at most {CLOCKS[0]:.0%} or {1e3 * CLOCKS[1]:g} ms apart)")

    def _method(self, spec: CellSpec) -> Comparison:
        """One method on the CPU, on the GPU, and twice on the GPU with deterministic kernels."""
        what, network, device = f"method {spec.method}", None, str(self.device)
        try:
            on_cpu = _logits(spec, "cpu")
        except UserError as error:
            network = self.with_batchnorm()
            try:
                on_cpu = _logits(spec, "cpu", network)
            except UserError:
                return Comparison(what, None, f"not tried: {error}")
        try:
            found = _logits(spec, device, network)
        except Exception as error:  # a method may raise anything
            return Comparison(what, False, f"raised {reason(error)}")
        text, ok = _distance(found, on_cpu)
        text += "" if network is None else f" (on a small {type(network).__name__} with BatchNorm)"
        try:
            exact = replace(spec, deterministic=True)
            repeats = torch.equal(_logits(exact, device, network), _logits(exact, device, network))
        except Exception as error:
            return Comparison(what, ok, f"{text}; --deterministic: {reason(error)}")
        return Comparison(what, ok and repeats, f"{text}; two runs {'have the same bits' if repeats else 'DIFFER'}")


def start(name: str) -> torch.device:
    """The GPU to examine; on a machine without one, a simulated one."""
    if name == "auto":
        if not torch.cuda.is_available() and not os.environ.get(gpus.SIMULATED):
            os.environ[gpus.SIMULATED] = "1"
        name = "cuda"
    device = environment.pick_device(name)
    if device.type != "cuda":
        raise UserError(f"doctor examines GPUs that CUDA can use (got --device {name})")
    environment.start(device)
    return device


def about(device: torch.device) -> list[str]:
    """What a reader of the report must know."""
    found = environment.describe(device)
    gpu = ", ".join(f"{key} {value}" for key, value in found["gpu"].items() if key not in environment.OF_THE_PROCESS)
    lines = [
        f"tta-bench {found['tta_bench']} ({found['commit']}), torch {found['packages']['torch']}",
        found["platform"],
    ]
    lines.append(f"{found['device_name']}: {gpu}")
    if simulated.is_on():
        lines.append("NO GPU HERE: a simulated one was examined. Its rounding, times and copies are the CPU's.")
    return lines


def _logits(spec: CellSpec, device: str, network: nn.Module | None = None) -> Tensor:
    """The logits of a method on the first images of its stream, with its model or with this network in its place."""
    with restored():
        work = shared_binder(Site(device=device)).bind(spec)
        model = work.setup.model
        setup = replace(work.setup, model=model if network is None else replace(model, network=network))
        adapter = Adapter(setup)
        if work.source_images is not None:
            few = list(islice(source_batches(work.source_images, setup, 0), SOURCE))
            adapter.prepare(few, list(islice(source_labels(work.source_images, setup), SOURCE)))
        order = list(work.stream.batches(BATCH))
        with closing(read(work.stream.images, order, setup.device, 0)) as found:
            return torch.cat([adapter.adapt(batch).float().cpu() for batch in found])


def _error(found: Tensor, exact: Tensor) -> float:
    return float((found.cpu().double() - exact).abs().max() / exact.abs().max())


def _distance(found: Tensor, expected: Tensor) -> tuple[str, bool]:
    """How far a GPU's answers are from a CPU's, and whether that is near enough."""
    differing = int((found.argmax(1) != expected.argmax(1)).sum())
    apart = float((found.softmax(1) - expected.softmax(1)).abs().max())
    text = f"{differing} of {len(expected)} predictions differ, probabilities by up to {apart:.1e}"
    return text, differing <= max(1, SHARE * len(expected))
