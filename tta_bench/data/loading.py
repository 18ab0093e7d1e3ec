"""Prefetches a stream's images: batches in the order of the plan, however many processes read.

Images are copied as bytes, a quarter of the size, and become floats on the device. Worker processes only decode: they
are forked without touching the device, run on one thread, and pass whole batches through shared memory.
"""

from __future__ import annotations

import math
import mmap
import signal
import sys
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tta_bench.data.images import ArrayImages, ImageSet
from tta_bench.errors import RunStopped, UserError
from tta_bench.system import cores, jobs_here

Indices = NDArray[np.int64]
Batches = Generator[Tensor, None, None]  # an iterator that can be closed

FORKS = sys.platform == "linux"
AHEAD = 2  # batches per worker
MOST_WORKERS = 8  # more than a model can use, few enough for a shared machine


def batches(images: ImageSet, plan: Iterable[Indices], device: torch.device, *, workers: int = 0) -> Batches:
    """Floats in [0, 1] on the device: one batch for each array of positions in the plan, in that order.

    A UserError of `images.read` is passed on unchanged, from a worker, too. To leave early, use `contextlib.closing`,
    so that no worker outlives the loop.
    """
    with closing(read_ahead(images, plan, workers=workers)) as host:
        yield from on_device(host, device)


def on_device(host: Iterable[Tensor], device: torch.device) -> Batches:
    """Batches of bytes in host memory as floats in [0, 1] on the device."""
    if device.type == "cuda":
        yield from _prefetch_to_gpu(host, device)
    else:
        yield from (_floats(batch.to(device)) for batch in host)


def read_ahead(images: ImageSet, plan: Iterable[Indices], *, workers: int = 0) -> Batches:
    """The same batches as bytes in host memory; each is valid until the next is requested."""
    planned = list(plan)
    if workers and planned and not in_memory(images):
        yield from _from_workers(images, planned, min(workers, len(planned)))
        return
    buffer: Tensor | None = None
    for indices in planned:
        if buffer is None or len(buffer) < len(indices) or not hasattr(images, "read_into"):
            buffer = _read(images, indices)
        else:
            _fill(buffer[: len(indices)], images, indices)
        yield buffer[: len(indices)]


def in_memory(images: ImageSet) -> bool:
    """Whether images need no decoding, so that passing them between processes would only cost time."""
    return isinstance(images, ArrayImages) or bool(getattr(images, "in_memory", False))


def default_workers(images: ImageSet) -> int:
    """As many workers as help: none for images in memory, else one for each core of this job, up to a limit."""
    return 0 if in_memory(images) else min(MOST_WORKERS, max(1, cores() // jobs_here()))


def _read(images: ImageSet, indices: Indices) -> Tensor:
    """One batch of bytes, always in the same memory layout: a model's rounding may depend on it."""
    return torch.from_numpy(np.require(images.read(indices), np.uint8, ["C", "W"]))


def _fill(buffer: Tensor, images: ImageSet, indices: Indices) -> None:
    """Read one batch into a buffer, directly if the images support it."""
    read_into = getattr(images, "read_into", None)
    if read_into is None:
        buffer.copy_(_read(images, indices))
    else:
        read_into(buffer.numpy(), indices)


class _WholeBatches(Dataset[Any]):
    """A dataset whose items are whole batches, each written into a buffer in shared memory.

    Sent as messages, each batch would need new memory, and allocating it would take a quarter of the time.
    """

    def __init__(self, images: ImageSet, buffers: Tensor) -> None:
        self.images = images
        self.buffers = buffers

    def __getitem__(self, job: tuple[int, Indices]) -> UserError | None:
        slot, indices = job
        try:
            _fill(self.buffers[slot, : len(indices)], self.images, indices)
        except UserError as error:
            return error  # raised in the worker, its one line would arrive wrapped in a traceback
        return None


def _from_workers(images: ImageSet, plan: list[Indices], workers: int) -> Batches:
    shape = (max(map(len, plan)), *_read(images, plan[0][:1]).shape[1:])
    # While one batch is in use, each worker may be reading AHEAD others.
    buffers = _shared_bytes((workers * AHEAD + 2, *shape))
    jobs = [(i % len(buffers), indices) for i, indices in enumerate(plan)]
    with warnings.catch_warnings():
        # More workers than cores are the user's choice, and these children do not use the parent's threads.
        warnings.simplefilter("ignore")
        loader = DataLoader(
            _WholeBatches(images, buffers),
            sampler=jobs,
            batch_size=None,
            num_workers=workers,
            collate_fn=_identity,
            prefetch_factor=AHEAD,
            worker_init_fn=_ignore_signals,
            multiprocessing_context="fork" if FORKS else None,
            generator=torch.Generator(),  # else a draw from the global one would change what methods draw
        )
        incoming = iter(loader)
    try:
        for (slot, indices), error in zip(jobs, incoming, strict=True):
            if error is not None:
                raise error
            yield buffers[slot, : len(indices)]
    except RuntimeError as error:
        if "killed by signal" in str(error) or "exited unexpectedly" in str(error):
            reason = str(error).splitlines()[0]
            raise RunStopped(
                f"a process that reads images died ({reason}): memory may be too small, try fewer --readers"
            ) from error
        raise
    finally:
        incoming._shutdown_workers()  # type: ignore[attr-defined]  # at once: a traceback may keep the iterator alive


def _shared_bytes(shape: tuple[int, ...]) -> Tensor:
    """Memory that workers write and this process reads."""
    if FORKS:  # not from /dev/shm, which containers keep small
        memory = mmap.mmap(-1, math.prod(shape))
        return torch.from_numpy(np.frombuffer(memory, np.uint8).reshape(shape))
    shared = torch.empty(shape, dtype=torch.uint8)
    shared.share_memory_()
    return shared


def _identity(item: Any) -> Any:
    return item


def _ignore_signals(worker: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # terminals and schedulers send them to every process of a job
        signal.signal(number, signal.SIG_IGN)


def _prefetch_to_gpu(host: Iterable[Tensor], device: torch.device) -> Iterator[Tensor]:
    """Copies the next batch to the GPU on a separate stream while the current one is processed."""
    copying = torch.cuda.Stream(device)
    ahead: tuple[Tensor, torch.cuda.Event] | None = None
    for batch in host:
        with torch.cuda.stream(copying):
            copied = batch.pin_memory().to(device, non_blocking=True), copying.record_event()
        if ahead is not None:
            yield _arrived(*ahead, device)
        ahead = copied
    if ahead is not None:
        yield _arrived(*ahead, device)


def _arrived(batch: Tensor, copied: torch.cuda.Event, device: torch.device) -> Tensor:
    """The batch as floats, once it has arrived: waiting for it counts as loading, not as adapting."""
    working = torch.cuda.current_stream(device)
    working.wait_event(copied)  # not for the whole stream, on which the next batch is being copied
    batch.record_stream(working)  # its memory is not reused before this stream has read it
    floats = _floats(batch)
    working.synchronize()
    return floats


def _floats(batch: Tensor) -> Tensor:
    """Floats in [0, 1], in new memory; from bytes, or from floats that are in it."""
    if batch.is_floating_point():
        return batch.to(torch.float32, memory_format=torch.contiguous_format, copy=True)
    if batch.device.type == "cpu":
        # One pass over memory where torch takes two: 7 ms instead of 28 ms of CPU time for 64 images of 224 px
        # (python -m benchmarks.shortcuts floats).
        return torch.from_numpy(np.divide(batch.numpy(), np.float32(255), dtype=np.float32))
    return batch.float().div_(255)
