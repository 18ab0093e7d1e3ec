"""Reads a stream's images ahead of the model: batches in the order of the plan, however many processes read.

Images travel as bytes, a quarter of the copy, and become floats on the device. Worker processes only decode: they
are forked without touching the device, run on one thread, and hand over whole batches through shared memory.
"""

from __future__ import annotations

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

from tta_bench.cores import cores
from tta_bench.errors import UserError
from tta_bench.images import ArrayImages, ImageSet

Indices = NDArray[np.int64]
Batches = Generator[Tensor, None, None]  # an iterator that can be closed

MOST_WORKERS = 8  # more than a benchmark's model can eat, fewer than a shared machine resents


def batches(images: ImageSet, plan: Iterable[Indices], device: torch.device, *, workers: int = 0) -> Batches:
    """Floats in [0, 1] on the device: one batch for each array of positions in the plan, in that order.

    What `images.read` raises as a UserError comes through as it is, from a worker too. Leave early through
    `contextlib.closing`, so that no worker outlives the loop.
    """
    on_gpu = device.type == "cuda"
    with closing(read_ahead(images, plan, workers=workers, pinned=on_gpu)) as host:
        if on_gpu:
            yield from _copied_ahead(host, device)
        else:
            for batch in host:
                yield _floats(batch.to(device))


def read_ahead(images: ImageSet, plan: Iterable[Indices], *, workers: int = 0, pinned: bool = False) -> Batches:
    """The same batches as bytes in this machine's memory, pinned for a quick copy to a GPU if asked."""
    planned = list(plan)
    if workers and planned and not in_memory(images):
        yield from _from_workers(images, planned, min(workers, len(planned)), pinned)
        return
    for indices in planned:
        batch = _read(images, indices)
        yield batch.pin_memory() if pinned else batch


def in_memory(images: ImageSet) -> bool:
    """Whether images are at hand without decoding, so that handing them between processes would only cost."""
    return isinstance(images, ArrayImages) or bool(getattr(images, "in_memory", False))


def default_workers(images: ImageSet) -> int:
    """As many workers as help: none for images at hand, else one per core up to a limit."""
    return 0 if in_memory(images) else min(MOST_WORKERS, cores())


def _read(images: ImageSet, indices: Indices) -> Tensor:
    """One batch of bytes, always laid out alike: a model's rounding may follow the layout."""
    return torch.from_numpy(np.require(images.read(indices), np.uint8, ["C", "W"]))


class _WholeBatches(Dataset[Any]):
    """A dataset whose items are whole batches: one read, one message between processes."""

    def __init__(self, images: ImageSet) -> None:
        self.images = images

    def __getitem__(self, indices: Indices) -> Tensor | UserError:
        try:
            return _read(self.images, indices)
        except UserError as error:
            return error  # raised in the worker, its one line would arrive wrapped in a traceback


def _from_workers(images: ImageSet, plan: list[Indices], workers: int, pinned: bool) -> Batches:
    with warnings.catch_warnings():
        # More workers than cores are the user's choice, and these children stay away from the parent's threads.
        warnings.simplefilter("ignore")
        loader = DataLoader(
            _WholeBatches(images),
            sampler=plan,
            batch_size=None,
            num_workers=workers,
            collate_fn=_as_it_is,
            pin_memory=pinned,
            worker_init_fn=_leave_interrupts_to_the_parent,
            multiprocessing_context="fork" if sys.platform == "linux" else None,
            generator=torch.Generator(),  # else a draw from the global one would shift what methods draw
        )
        incoming = iter(loader)
    try:
        for batch in incoming:
            if isinstance(batch, UserError):
                raise batch
            yield batch
    except RuntimeError as error:
        if "killed by signal" in str(error) or "exited unexpectedly" in str(error):
            reason = str(error).splitlines()[0]
            raise UserError(
                f"a process that reads images died ({reason}): memory or /dev/shm may be too small, try --workers 0"
            ) from error
        raise
    finally:
        incoming._shutdown_workers()  # type: ignore[attr-defined]  # at once: a traceback may keep the iterator alive


def _as_it_is(item: Any) -> Any:
    return item


def _leave_interrupts_to_the_parent(worker: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _copied_ahead(host: Iterator[Tensor], device: torch.device) -> Iterator[Tensor]:
    """Copies the next batch to the GPU on a stream of its own while the current one is worked on."""
    copying = torch.cuda.Stream(device)
    ahead: Tensor | None = None
    for batch in host:
        with torch.cuda.stream(copying):
            copied = batch.to(device, non_blocking=True)
        if ahead is not None:
            yield _arrived(ahead, copying, device)
        ahead = copied
    if ahead is not None:
        yield _arrived(ahead, copying, device)


def _arrived(batch: Tensor, copying: torch.cuda.Stream, device: torch.device) -> Tensor:
    working = torch.cuda.current_stream(device)
    working.wait_stream(copying)
    batch.record_stream(working)  # its memory is not given away before this stream has read it
    return _floats(batch)


def _floats(batch: Tensor) -> Tensor:
    return batch.float().div_(255)
