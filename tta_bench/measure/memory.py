"""Peak memory of one cell: allocated bytes on a GPU, the process's peak resident size on a CPU."""

from __future__ import annotations

import atexit
import ctypes
import gc
import resource
import sys
from functools import cache
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def start(device: torch.device) -> None:
    """Reset the peak, after returning memory that earlier cells freed to the system."""
    _freeze_imports()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        try:
            ctypes.CDLL(None).malloc_trim(0)
            _CLEAR.write_text("5")  # resets the kernel's high-water mark to the current size
        except (OSError, AttributeError):  # another libc, or a read-only /proc
            return


def peak(device: torch.device) -> dict[str, int | str]:
    """The peak since `start`, and what it measures."""
    if device.type == "cuda":
        return {"bytes": torch.cuda.max_memory_allocated(device), "measure": "allocated on the GPU"}
    try:
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return {"bytes": int(line.split()[1]) * 1024, "measure": "resident size of the process"}
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        bytes_ = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        return {"bytes": bytes_, "measure": "resident size of the process, whole run"}


@cache
def _freeze_imports() -> None:
    """Exclude imported objects from garbage collection: walking them takes 0.2 s per cell, longer than some cells."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else extensions that check for leaks at exit report all of it
