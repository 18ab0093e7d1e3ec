"""Simulated GPUs: tensors that say they are on cuda:0, compute on the CPU, and refuse what CUDA refuses.

    with SimulatedGpus() as gpus:
        method = build_method("mine", model.to("cuda"), num_classes=10)
        logits = method.adapt(batch.to("cuda"))
    gpus.waits  # what made the host wait for the GPU, and where: {("nonzero", "methods/mine.py:26"): 1, ...}

Refused, with the line to blame: operations that mix devices (copies, CPU indices and single CPU numbers may), draws
with another device's generator, `.numpy()`, products of integers, a tensor that another stream still computes, the
reset of the allocator's peak before CUDA's first use, a missing GPU, and, if deterministic algorithms are on,
operations that have none.
Simulated: the driver's files and variables at its first use, CUDA_VISIBLE_DEVICES, several GPUs with a generator, a
memory count and streams each, autocast by CUDA's lists, TF32 where torch's switches allow it, and, if asked for, sums
in any order (`is_unordered`).

It differs from a GPU in
- rounding: results are the CPU's, bit for bit, but for TF32; a GPU sums in other orders;
- time: work is done at once, so times are the CPU's, and nothing overlaps;
- memory: counts have CUDA's blocks of 512 bytes, not its fragments, workspaces and contexts; nothing runs out;
- streams: only reads of unfinished results are noticed, not memory that is reused too early;
- autocast inside torch's own Python functions: their arguments are cast, not each step;
- files: `torch.load` puts a saved tensor back on its GPU, whatever `map_location` says;
- threads: only the thread that switched it on has GPUs. A backward pass runs in that thread, too.
`model.to("cuda")` makes new parameters, where CUDA keeps the old ones, and `type(tensor) is Tensor` does not hold.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
from torch.optim import optimizer as optimizers
from torch.utils import _foreach_utils

from tta_bench.errors import UserError
from tta_bench.gpus import SIMULATED
from tta_bench.simulated.functions import Functions, Generators
from tta_bench.simulated.machine import NAME, Machine
from tta_bench.simulated.operations import Operations
from tta_bench.simulated.tensor import Simulated, loaded

__all__ = ["NAME", "Simulated", "SimulatedGpus", "is_on", "switch_on_if_asked"]

_on: list[SimulatedGpus] = []


class SimulatedGpus(Machine):
    """The GPUs of this thread while the context is open."""

    def __init__(self, count: int = 1, *, is_unordered: bool = False) -> None:
        super().__init__(count, is_unordered=is_unordered)
        self._patches = ExitStack()

    def __enter__(self) -> SimulatedGpus:
        if _on:
            raise RuntimeError("simulated GPUs are on already")
        _on.append(self)
        Simulated.machine = Generators.machine = self
        for name, value in self.calls().items():
            self._put(torch.cuda, name, value)
        self._put(torch.accelerator, "current_stream", self.stream)
        self._put(torch, "Generator", Generators("Generator", (), {}))
        self._put(torch.Tensor, "pin_memory", _pinned)
        self._put(torch.Tensor, "is_pinned", lambda tensor, device=None: getattr(tensor, "_is_pinned", False))
        for home in (_foreach_utils, optimizers):  # optimisers take lists of these, as of CUDA's tensors
            self._put(home, "_foreach_supported_types", [*home._foreach_supported_types, Simulated])
        self._patches.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(x, device="cuda") is then a copy that modes see
        self._patches.enter_context(torch.serialization.safe_globals([loaded]))  # as CUDA's tensors are
        operations = Operations(self)
        self._put(self, "run", operations.run)
        self._patches.enter_context(Functions(self))
        self._patches.enter_context(operations)
        return self

    def __exit__(self, *failure: object) -> None:
        self._patches.close()
        self.close()
        _on.remove(self)

    def _put(self, *place: Any) -> None:
        self._patches.enter_context(mock.patch.object(*place, create=True))


def is_on() -> bool:
    """Whether this process has simulated GPUs instead of real ones."""
    return bool(_on)


def switch_on_if_asked() -> None:
    """Give this process simulated GPUs until it ends, if the variable asks for some."""
    asked = os.environ.get(SIMULATED)
    if not asked or _on:
        return
    count, _, how = asked.partition(":")
    if not count.isdecimal() or int(count) < 1 or how not in ("", "unordered"):
        raise UserError(f"{SIMULATED}={asked}: expected a number of GPUs, as in 2 or 2:unordered")
    SimulatedGpus(int(count), is_unordered=bool(how)).__enter__()


def _pinned(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    copy = tensor.clone()
    copy._is_pinned = True  # type: ignore[attr-defined]
    return copy
