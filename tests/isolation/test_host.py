"""The runner: only `adapt` is timed, counts are exact, and a bad method fails alone."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tests.support.works import CPU, requests, works
from tta_bench import registry
from tta_bench.data.images import ArrayImages
from tta_bench.engines.start import run_here
from tta_bench.isolation.host import Work, run_cell
from tta_bench.measure import memory
from tta_bench.measure.cost import CostCounter
from tta_bench.method import Method
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.runs.bind import Binder
from tta_bench.runs.watcher import Watcher


class Toy(Method):
    """A method whose behaviour a test chooses."""

    behaviour: ClassVar[Callable[[Toy, Tensor], Tensor]]

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)

    def adapt(self, batch: Tensor) -> Tensor:
        return type(self).behaviour(self, batch)


def zeros(method: Toy, batch: Tensor) -> Tensor:
    return torch.zeros(len(batch), method.num_classes)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> type[Toy]:
    """A registry in which the name `source` means the toy."""
    real = registry.Registry.load
    monkeypatch.setattr(registry.Registry, "load", lambda self, name: Toy if name == "source" else real(self, name))
    Toy.behaviour = zeros
    return Toy


def first(small_suite: Path, *methods: str, limit: int = 64) -> Work:
    return works(small_suite, methods=methods or ("source",), limit=limit)[0]


def records(small_suite: Path, *methods: str) -> list[Record]:
    store = Store.create(small_suite.parent / "out", "small")
    asked = requests(small_suite, methods=methods or ("source",), limit=64)
    return run_here(asked, {}, Binder(CPU), store, Watcher())


def test_a_record_says_everything(small_suite: Path) -> None:
    work = first(small_suite, "tent")
    record, predictions = run_cell(work)
    assert record.status == "done"
    assert record.scores.samples == 64 == len(predictions.label)
    assert record.scores.top1 == predictions.correct.mean()
    assert record.scores.top5 >= record.scores.top1
    assert list(predictions.index) == list(work.stream.order)
    assert list(predictions.label) == list(work.stream.images.labels[work.stream.order])
    assert len(record.measured.batch_seconds) == 2
    assert record.measured.seconds["adapt"] == pytest.approx(sum(record.measured.batch_seconds))
    assert {"adapt", "first_batch", "load", "prepare", "build"} == set(record.measured.seconds)
    assert record.cell.found.weights == work.setup.model.weights_hash
    assert record.cell.found.mean == work.setup.model.mean
    assert record.cell.found.stream == work.stream.digest
    assert record.cell.spec.settings["momentum"] == 0.9  # defaults are written out
    assert record.measured.memory["bytes"] > 0
    assert record.measured.environment["packages"]["torch"]
    assert record.measured.environment["threads"] == torch.get_num_threads()
    assert record.measured.environment["GOMP_SPINCOUNT"] == os.environ.get("GOMP_SPINCOUNT", "")


def test_scores_are_those_of_the_logits(small_suite: Path) -> None:
    work = first(small_suite, "source")
    _, predictions = run_cell(work)
    images = torch.from_numpy(work.stream.images.read(work.stream.order)) / 255
    with torch.no_grad():
        p = work.setup.model.fresh(torch.device("cpu"))(images).softmax(1)
    assert np.array_equal(predictions.prediction, p.argmax(1).numpy())
    np.testing.assert_allclose(predictions.confidence, p.max(1).values.numpy(), atol=1e-5)
    np.testing.assert_allclose(predictions.entropy, torch.special.entr(p).sum(1).numpy(), atol=1e-4)
    truth = torch.nn.functional.one_hot(torch.from_numpy(predictions.label).long(), p.shape[1])
    np.testing.assert_allclose(predictions.brier, ((p - truth) ** 2).sum(1).numpy(), atol=1e-4)


def test_counts_are_exact(small_suite: Path) -> None:
    found = {r.cell.spec.method: r for r in records(small_suite, "source", "tent")}
    assert (found["source"].measured.sample_forwards, found["source"].measured.sample_backwards) == (64, 0)
    assert (found["tent"].measured.sample_forwards, found["tent"].measured.sample_backwards) == (64, 64)


def test_a_hidden_pass_is_counted(small_suite: Path, toy: type[Toy]) -> None:
    def two_forwards(method: Toy, batch: Tensor) -> Tensor:
        method.model(batch[:5])
        return method.model.forward_head(method.model.forward_features(batch)).detach()  # type: ignore[operator]

    toy.behaviour = two_forwards
    assert records(small_suite)[0].measured.sample_forwards == 64 + 2 * 5


def test_a_masked_sample_that_is_computed_counts_as_backward() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    with CostCounter(model) as cost:
        model(torch.rand(8, 3, 8, 8))[:3].sum().backward()
    assert (cost.sample_forwards, cost.sample_backwards) == (8, 8)
    model(torch.rand(8, 3, 8, 8))
    assert cost.sample_forwards == 8, "counting goes on after the context is closed"


def test_only_adapt_is_timed(small_suite: Path, toy: type[Toy], monkeypatch: pytest.MonkeyPatch) -> None:
    real = ArrayImages.read

    def slow_read(self: ArrayImages, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        time.sleep(0.2)
        return real(self, indices)

    work = first(small_suite)
    monkeypatch.setattr(ArrayImages, "read", slow_read)
    record, _ = run_cell(work)
    assert record.measured.seconds["load"] > 0.4
    assert record.measured.seconds["adapt"] < 0.2


def fails(message: str) -> Callable[[Toy, Tensor], Tensor]:
    def behaviour(method: Toy, batch: Tensor) -> Tensor:
        raise RuntimeError(message)

    return behaviour


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (fails("out of\nideas"), "RuntimeError: out of ideas"),
        (lambda m, b: sys.exit(0), "SystemExit: 0"),
        (lambda m, b: torch.full((len(b), m.num_classes), torch.nan), "NaN or infinite logits after 0 images"),
        (lambda m, b: torch.zeros(len(b), 7), r"adapt returned \(32, 7\) after 0 images, expected .* \(32, 10\)"),
        (lambda m, b: None, "adapt returned NoneType"),
    ],
)
def test_a_bad_method_fails_only_its_cell(
    behaviour: Callable[[Toy, Tensor], Tensor], reason: str, small_suite: Path, toy: type[Toy]
) -> None:
    toy.behaviour = behaviour
    found = records(small_suite, "source", "tent")
    assert [(r.cell.spec.method, r.status) for r in found] == [
        ("source", "failed"),
        ("tent", "done"),
        ("source", "failed"),
        ("tent", "done"),
    ]
    assert found[0].reason == found[2].reason
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found[0].reason)


def test_a_failed_cell_is_tried_again(small_suite: Path, toy: type[Toy]) -> None:
    toy.behaviour = fails("not yet")
    assert {r.status for r in records(small_suite)} == {"failed"}
    toy.behaviour = zeros
    assert {r.status for r in records(small_suite)} == {"done"}


def test_a_finished_cell_is_not_run_again(small_suite: Path, toy: type[Toy]) -> None:
    first = records(small_suite)
    toy.behaviour = fails("should not run")
    assert records(small_suite) == first


def test_every_cell_gets_a_fresh_model(small_suite: Path, toy: type[Toy]) -> None:
    seen: list[float] = []

    def spoil(method: Toy, batch: Tensor) -> Tensor:
        with torch.no_grad():
            seen.append(float(method.model.head.bias.sum()))  # type: ignore[union-attr, operator, arg-type]
            method.model.head.bias.add_(1)  # type: ignore[union-attr, operator]
        return zeros(method, batch)

    toy.behaviour = spoil
    records(small_suite)
    assert seen[0] == seen[3] != seen[1]  # two batches, and one more that counts operations


def test_peak_memory_is_that_of_adapting(small_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Learning from source images may take more memory, once, and is measured separately."""
    peaks = iter([500, 300])
    monkeypatch.setattr(memory, "peak", lambda device: {"bytes": next(peaks), "measure": "made up"})
    started: list[str] = []
    monkeypatch.setattr(memory, "start", lambda device: started.append("again"))
    record, _ = run_cell(first(small_suite, "eata"))
    assert (record.measured.memory["bytes"], record.measured.memory["prepare_bytes"]) == (300, 500)
    assert len(started) == 2
