"""The environment of a measurement: versions, device, threads and commit, stored with every record."""

from __future__ import annotations

import gc
import os
import platform
import socket
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import tta_bench
from tta_bench.errors import UserError

PACKAGES = ("torch", "torchvision", "timm", "numpy", "scipy", "pillow")
SHARED = "TTA_BENCH_SHARED_DEVICE"  # set by engines that run several jobs on one device


def pick_device(name: str) -> torch.device:
    """The device by name; "auto" picks a GPU if there is one. Raises UserError for a missing device."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"unknown device '{name}': expected auto, cpu, cuda, cuda:N or mps") from error
    available = {
        "cpu": device.index in (None, 0),
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if device.type not in available:
        raise UserError(f"device '{name}' is not supported: expected auto, cpu, cuda, cuda:N or mps")
    if not available[device.type]:
        raise UserError(f"device '{name}' is not available: this machine has {_devices()}")
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # a method's own `.cuda()` then uses this GPU, not the first
    return device


def start(device: torch.device) -> None:
    """Make a GPU the current one and start its driver, which opens files and sets variables at its first use.

    Before anything is compared: these files and variables are no method's. A method's own `.cuda()` uses this GPU.
    """
    if device.type == "cuda":
        torch.cuda.init()
        torch.cuda.set_device(torch.cuda.current_device() if device.index is None else device.index)
        torch.cuda.synchronize(device)


def release(device: torch.device) -> None:
    """Return a GPU's unused memory, which other processes may need while this one waits."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def describe(device: torch.device) -> dict[str, Any]:
    """The environment of a run on this device."""
    return {
        "tta_bench": tta_bench.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _versions(),
        "device": device.type,
        "device_name": device_name(device),
        "host": socket.gethostname(),
        "shared": is_shared(device),
        "threads": torch.get_num_threads(),
        "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", ""),  # how long idle threads spin; changes times
    }


def device_name(device: torch.device) -> str:
    """The name of the chip."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name()


def is_shared(device: torch.device) -> bool:
    """Whether other jobs may use the device at the same time, as far as an engine or Slurm says so.

    Slurm grants GPUs to one job alone, but of a CPU it may grant a part of the cores.
    """
    if os.environ.get(SHARED):
        return True
    granted = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return device.type == "cpu" and granted.isdecimal() and int(granted) < (os.cpu_count() or 1)


def _devices() -> str:
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return ", ".join(["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])])


@cache
def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@cache
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@cache
def _commit() -> str | None:
    """The commit of the checkout that this package runs from, with "+dirty" if it has changes."""
    top = Path(__file__).resolve().parents[2]
    if not (top / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(top), "describe", "--always", "--dirty=+dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
