"""The environment of a measurement: versions, device, threads and commit, stored with every record."""

from __future__ import annotations

import gc
import os
import platform
import socket
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import tta_bench
from tta_bench import simulated
from tta_bench.errors import UserError

PACKAGES = ("torch", "torchvision", "timm", "numpy", "scipy", "pillow")
SIMULATED = "simulated"  # the device of records that were made without a GPU
OF_THE_PROCESS = ("tf32", "deterministic")  # switches of torch, which each process sets for its cell
SHARED = "TTA_BENCH_SHARED_DEVICE"  # set by engines that run several jobs on one device


def pick_device(name: str) -> torch.device:
    """The device by name; "auto" picks a GPU if there is one. Raises UserError for a missing device."""
    simulated.switch_on_if_asked()
    if name == SIMULATED and simulated.is_on():  # as records made on one name their device
        name = "cuda"
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
    return device


def started(name: str) -> torch.device:
    """The device by name, ready to compute on."""
    device = pick_device(name)
    start(device)
    return device


def start(device: torch.device, *, tf32: bool = False, deterministic: bool = False) -> None:
    """Make a GPU the current one, start its driver, and set how this process computes on it.

    Before anything is compared: the driver opens files and sets variables at its first use, which are no method's. A
    method's own `.cuda()` uses this GPU. Without `tf32`, products have the precision of float32, which torch by itself
    grants to matrices only. With `deterministic`, an operation that may sum in any order is an error.
    """
    simulated.switch_on_if_asked()
    if device.type != "cuda":
        return
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when a process first multiplies
    torch.cuda.init()
    torch.cuda.set_device(torch.cuda.current_device() if device.index is None else device.index)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.deterministic = deterministic
    torch.use_deterministic_algorithms(deterministic)
    torch.cuda.synchronize(device)


def kind(device: torch.device) -> str:
    """The kind of device that a cell's identity names: a simulated GPU is none of CUDA's."""
    return SIMULATED if device.type == "cuda" and simulated.is_on() else device.type


def release(device: torch.device) -> None:
    """Return a GPU's unused memory, which other processes may need while this one waits."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def of_failure(device: torch.device) -> dict[str, Any]:
    """The environment of a cell that failed, without what only the process that adapted knows of its GPU."""
    found = describe(device)
    gpu = {key: value for key, value in found.get("gpu", {}).items() if key not in OF_THE_PROCESS}
    return found | ({"gpu": gpu} if gpu else {})


def describe(device: torch.device) -> dict[str, Any]:
    """The environment of a run on this device."""
    return {
        "tta_bench": tta_bench.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
        "device": kind(device),
        "device_name": device_name(device),
        "host": socket.gethostname(),
        "shared": is_shared(device),
        "threads": torch.get_num_threads(),
        "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", ""),  # how long idle threads spin; changes times
        **({"gpu": _gpu(device)} if device.type == "cuda" else {}),
    }


def _gpu(device: torch.device) -> dict[str, Any]:
    """What may change the bits of a result on a GPU, besides its name."""
    facts = torch.cuda.get_device_properties(device)
    return {
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "driver": _driver(),
        "capability": f"{facts.major}.{facts.minor}",
        "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


@cache
def _driver() -> str | None:
    """The version of NVIDIA's driver: the module's, or where there is none, as in WSL2, what nvidia-smi says."""
    with suppress(OSError):
        return Path("/sys/module/nvidia/version").read_text().strip()
    ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(ask, capture_output=True, text=True, timeout=10).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found[0] if found else None


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
def versions() -> dict[str, str]:
    """Of the packages that may change a result."""
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
