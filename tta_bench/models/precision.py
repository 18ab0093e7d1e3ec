"""Optional speed-ups: bf16 autocast and torch.compile, both off by default because both can change results."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from torch import nn

from tta_bench.errors import UserError

_PROBE = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); (a @ a).sum().item()"


def autocast(device: torch.device, amp: str | None) -> AbstractContextManager[object]:
    """The context in which `adapt` runs."""
    if amp is None:
        return nullcontext()
    # With the cache, a weight that a method changes between two passes of a step would keep its old cast.
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


def refuse_missing_bf16(device: torch.device) -> None:
    """Refuse a device that cannot multiply in bf16, instead of crashing in the middle of a run."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            is_supported = torch.cuda.is_bf16_supported(including_emulation=False)
        if not is_supported:
            raise UserError(f"--amp bf16: {torch.cuda.get_device_name(device)} has no bf16: omit --amp")
    if device.type == "cpu" and _bf16_crashes():
        raise UserError(
            "--amp bf16: bf16 products crash on this CPU (it reports instructions that it cannot run): "
            "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16, or omit --amp"
        )


@cache
def _bf16_crashes() -> bool:
    """Try it in a child process: an illegal instruction kills without an exception."""
    return subprocess.run([sys.executable, "-c", _PROBE], capture_output=True).returncode != 0


def compiled(model: nn.Module) -> nn.Module:
    """The same module with its forward compiled; hooks of methods still run."""
    import torch._dynamo

    torch._dynamo.reset()  # else the graphs of earlier cells count towards the limit of recompilations
    # Without these guards, hooks that a method adds later (DPAL's tokens, cost counters) would be ignored.
    torch._dynamo.config.skip_nnmodule_hook_guards = False
    model.compile(dynamic=True)
    return model
