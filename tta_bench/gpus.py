"""What is known of this machine's GPUs without torch: which a process may use, and how to give it one of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tta_bench.errors import UserError

SIMULATED = "TTA_BENCH_SIMULATED_GPUS"  # how many, as in 2 (simulated/); only tests and `doctor` set it
ORDER, VISIBLE = "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"
_DEVICES = Path("/dev")


def visible() -> list[str] | None:
    """The names by which CUDA_VISIBLE_DEVICES can choose each GPU, in CUDA's order; None if only CUDA knows.

    CUDA counts the GPUs that it sees from 0. Numbers of device files are other ones where a container has some of a
    machine's GPUs, and WSL2 has no such files.
    """
    chosen = os.environ.get(VISIBLE)
    if chosen is not None:
        names = [name.strip() for name in chosen.split(",")]
        end = next((i for i, name in enumerate(names) if name in ("", "-1")), len(names))  # CUDA ignores the rest
        return names[:end]
    if simulated := os.environ.get(SIMULATED):
        return [str(i) for i in range(int(simulated.partition(":")[0]))]
    if (_DEVICES / "dxg").exists():
        return None
    return [str(i) for i, _ in enumerate(_DEVICES.glob("nvidia[0-9]*"))]


def recorded(device: str) -> str:
    """The device in records of cells that ran on a device of this name: a simulated GPU is none of CUDA's."""
    kind = device.partition(":")[0]
    return "simulated" if kind == "cuda" and os.environ.get(SIMULATED) else kind


def refuse_missing(gpus: Sequence[int]) -> None:
    """Refuse missing GPUs, as far as is known without CUDA."""
    there = visible()
    missing = [] if there is None else [gpu for gpu in gpus if gpu >= len(there)]
    if missing:
        has = ", ".join(map(str, range(len(there or ())))) or "none"
        where = f"{VISIBLE}={os.environ[VISIBLE]} shows no" if VISIBLE in os.environ else "this machine has no"
        raise UserError(f"--gpus {','.join(map(str, gpus))}: {where} GPU {missing[0]} (GPUs: {has})")


def only(gpu: int) -> dict[str, str]:
    """The variables of a process that may use one GPU. Numbers follow the slots, as nvidia-smi's do."""
    there = visible()
    name = str(gpu) if there is None else there[gpu]
    return {ORDER: os.environ.get(ORDER, "PCI_BUS_ID"), VISIBLE: name}
