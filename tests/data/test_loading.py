"""Batches come in the order of the plan whoever reads them, and nobody stays behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tta_bench.data import loading
from tta_bench.data.images import ArrayImages
from tta_bench.data.loading import batches, default_workers, read_ahead
from tta_bench.errors import UserError
from tta_bench.simulated import SimulatedGpus

CPU = torch.device("cpu")


class Drawn:
    """Images that are made when read, each of its own number; what a subclass does first goes wrong."""

    def __init__(self, count: int, side: int = 4) -> None:
        self.ids = [f"image {i}" for i in range(count)]
        self.labels = np.zeros(count, dtype=np.int64)
        self.side = side

    def before(self, indices: NDArray[np.int64]) -> None:
        pass

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        self.before(indices)
        pixels = np.empty((len(indices), 3, self.side, self.side), np.uint8)
        pixels[:] = (indices % 256)[:, None, None, None]
        return pixels


class Uneven(Drawn):
    """The earlier a batch, the longer it takes: with several workers, the last would be there first."""

    def before(self, indices: NDArray[np.int64]) -> None:
        time.sleep(max(0.0, 0.1 - 0.02 * int(indices[0]) / 4))


class Broken(Drawn):
    def before(self, indices: NDArray[np.int64]) -> None:
        if 9 in indices:
            raise UserError("n01/cut.JPEG: truncated image")


class Buggy(Drawn):
    def before(self, indices: NDArray[np.int64]) -> None:
        if 5 in indices:
            raise ZeroDivisionError("a bug in a dataset")


class Killed(Drawn):
    def before(self, indices: NDArray[np.int64]) -> None:
        if multiprocessing.current_process().daemon:
            os.kill(os.getpid(), signal.SIGKILL)


class Transposed(Drawn):
    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.ascontiguousarray(super().read(indices).transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


class Direct(Drawn):
    """Can read into memory that is there."""

    def read_into(self, place: NDArray[np.uint8], indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        assert place.shape == (len(indices), 3, self.side, self.side)
        place[:] = (indices % 256)[:, None, None, None]
        return place


def plan(count: int, size: int = 4) -> Iterator[NDArray[np.int64]]:
    return (np.arange(count)[i : i + size] for i in range(0, count, size))


@pytest.fixture(autouse=True)
def _no_process_stays() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_order_is_that_of_the_plan(workers: int) -> None:
    order = np.random.default_rng(0).permutation(21)
    shuffled = [order[i : i + 4] for i in range(0, 21, 4)]
    images = Uneven(21) if workers else Drawn(21)
    found = list(batches(images, iter(shuffled), CPU, workers=workers))
    assert [len(batch) for batch in found] == [4, 4, 4, 4, 4, 1]
    assert {(batch.dtype, batch.shape[1:]) for batch in found} == {(torch.float32, (3, 4, 4))}
    assert torch.equal(torch.cat(found)[:, 0, 0, 0], torch.from_numpy(order).float() / 255)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_user_error_of_a_worker_arrives_unchanged(workers: int) -> None:
    found: list[torch.Tensor] = []
    with pytest.raises(UserError) as caught:
        found.extend(batches(Broken(16), plan(16), CPU, workers=workers))
    assert str(caught.value) == "n01/cut.JPEG: truncated image"
    assert len(found) == 2, "the batches before it came first"
    assert multiprocessing.active_children() == [], "even while the traceback is kept"


def test_a_bug_in_a_worker_keeps_its_kind_and_place() -> None:
    with pytest.raises(ZeroDivisionError, match=r"(?s)in before.*a bug in a dataset"):
        list(batches(Buggy(8), plan(8), CPU, workers=1))


def test_a_killed_worker_is_one_line() -> None:
    with pytest.raises(UserError, match="died .*fewer --readers") as caught:
        list(batches(Killed(8), plan(8), CPU, workers=1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 2])
def test_leaving_early_stops_the_workers(workers: int) -> None:
    with closing(batches(Drawn(400), plan(400), CPU, workers=workers)) as loaded:
        next(loaded)
        assert len(multiprocessing.active_children()) == workers
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_workers_leave_signals_to_the_parent(by: signal.Signals) -> None:
    with closing(batches(Drawn(400), plan(400), CPU, workers=1)) as loaded:
        next(loaded)
        (worker,) = multiprocessing.active_children()
        os.kill(worker.pid or 0, by)  # a terminal sends Ctrl-C to all, a scheduler its end of the job
        assert len(list(loaded)) == 99


def test_no_draw_from_the_global_generator() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    list(batches(Drawn(8), plan(8), CPU, workers=1))
    assert torch.equal(torch.rand(3), expected)


def test_more_workers_than_cores_or_batches_do_not_warn() -> None:
    assert len(list(batches(Drawn(12), plan(12), CPU, workers=500))) == 3


def test_images_in_memory_get_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "DataLoader", None)  # would raise if called
    images = ArrayImages(Drawn(8).read(np.arange(8)), np.zeros(8, dtype=np.int64), list("abcdefgh"))
    assert len(list(batches(images, plan(8), CPU, workers=2))) == 2
    assert default_workers(images) == 0


def test_default_workers_follow_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, expected in ((1, 1), (3, 3), (64, 8)):
        monkeypatch.setattr(loading, "cores", lambda there=there: there)
        assert default_workers(Drawn(1)) == expected


def test_jobs_on_one_machine_share_its_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "cores", lambda: 16)
    for jobs, expected in ((1, 8), (4, 4), (40, 1)):
        monkeypatch.setenv("TTA_BENCH_JOBS", str(jobs))
        assert default_workers(Drawn(1)) == expected


@pytest.mark.parametrize("workers", [0, 1])
def test_layout_in_memory_is_always_the_same(workers: int) -> None:
    (contiguous,) = (batch.is_contiguous() for batch in read_ahead(Transposed(4), plan(4), workers=workers))
    assert contiguous


def test_floats_are_torchs_to_the_bit() -> None:
    (batch,) = batches(Drawn(256), plan(256, 256), CPU)
    assert torch.equal(batch[:, 0, 0, 0], torch.arange(256, dtype=torch.uint8).float().div_(255))


@pytest.mark.parametrize("workers", [0, 2])
def test_bytes_are_read_into_existing_memory(workers: int) -> None:
    sizes, seen, places = (4, 2, 4, 6, 5, 1), [], set()
    ends = np.cumsum(sizes)
    chosen = [np.arange(end - size, end)[::-1] for end, size in zip(ends, sizes, strict=True)]
    for batch in read_ahead(Direct(ends[-1]), chosen, workers=workers):
        seen.append(batch[:, 0, 0, 0].tolist())
        places.add(batch.data_ptr())
        assert batch.is_contiguous()
    assert seen == [indices.tolist() for indices in chosen]
    assert workers or len(places) == 2, "new memory only for the first batch and for a larger one"


def test_an_empty_plan() -> None:
    assert list(batches(Drawn(4), [], CPU, workers=2)) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_kept_batch_is_not_overwritten(workers: int) -> None:
    """Memory is used again, but not while a tensor, a view of it or a graph still needs it."""
    weight = torch.ones(1, requires_grad=True)
    kept, views, graphs, places = [], [], [], set()
    for i, batch in enumerate(batches(Drawn(200), plan(200), CPU, workers=workers)):
        places.add(batch.data_ptr())
        if i == 3:
            kept.append(batch)
        if i == 5:
            views.append(batch[2:, 0])
        if i == 7:
            graphs.append((batch * weight).sum())
    del batch
    assert torch.equal(kept[0][:, 0, 0, 0], torch.arange(12, 16) / 255)
    assert torch.equal(views[0][:, 0, 0], torch.arange(22, 24) / 255)
    graphs[0].backward()
    assert weight.grad is not None
    assert weight.grad.item() == pytest.approx(48 * (28 + 29 + 30 + 31) / 255)
    assert len(places) <= 2 + 3


@pytest.mark.parametrize("workers", [0, 2])
def test_copied_ahead_to_a_gpu(workers: int) -> None:
    with SimulatedGpus(2) as gpus:  # refuses a batch that is read before its copy has arrived
        found = list(batches(Drawn(21), plan(21), torch.device("cuda:1"), workers=workers))
        assert torch.equal(torch.cat(found)[:, 0, 0, 0].cpu(), torch.arange(21) / 255)
        assert {what for what, _ in gpus.waits} == {"synchronize", "copy to the CPU"}  # copies to the GPU do not wait


def test_the_next_batch_is_copied_while_this_one_is_processed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU that only writes down what it is asked for, in which order."""
    log: list[str] = []

    class Stream:
        def __init__(self, device: torch.device) -> None:
            self.copies = 0

        def record_event(self) -> str:
            self.copies += 1
            log.append(f"copy {self.copies}")
            return f"copy {self.copies}"

        def wait_event(self, event: str) -> None:
            log.append(f"wait for {event}")

        def synchronize(self) -> None:
            log.append("floats")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.clone())
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device, non_blocking: self)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, stream: None)
    for i, batch in enumerate(batches(Drawn(12), plan(12), torch.device("cuda"))):
        assert torch.equal(batch[:, 0, 0, 0], torch.arange(4 * i, 4 * i + 4) / 255)
        log.append(f"work {i + 1}")
    first = ["copy 1", "copy 2", "wait for copy 1", "floats", "work 1"]
    assert log == [*first, "copy 3", "wait for copy 2", "floats", "work 2", "wait for copy 3", "floats", "work 3"]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("workers", [0, 2])
def test_memory_stays_constant_over_20000_images(workers: int) -> None:
    """Kept batches would take 245 MB, kept bytes 61 MB."""
    sizes = [resident() for _ in batches(Drawn(20_000, side=32), plan(20_000, 50), CPU, workers=workers)]
    assert len(sizes) == 400
    assert max(sizes[40:]) - sizes[40] < 8e6


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
