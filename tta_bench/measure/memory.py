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
    """Begin a new peak; what an earlier cell freed goes back to the system first."""
    _set_imports_aside()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        try:
            ctypes.CDLL(None).malloc_trim(0)
            _CLEAR.write_text("5")  # sets the kernel's high-water mark back to the present size
        except (OSError, AttributeError):  # another libc, or a /proc that cannot be written
            return


def peak(device: torch.device) -> dict[str, int | str]:
    """The peak since `start`, and which measure it is."""
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
def _set_imports_aside() -> None:
    """Keep the collector away from what imports made: walking it costs 0.2 s a cell, more than some cells take."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # extensions that look for leaks at the end would report all of it
