"""What the host sends to a GPU.

The host prepares work ahead of a GPU until it reads a result; it then waits until all work is done, and the GPU idles
until there is more. `nonzero`, a mask as an index, `tolist`, `item` and `cpu` read a result. So a method reads what it
needs at once, decides on the CPU, and sends indices and numbers with `sent`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def sent(values: Tensor, like: Tensor) -> Tensor:
    """Values made on the CPU, on the device of `like`.

    Through pinned memory: such a copy joins the GPU's queue, and the host goes on. Any other copy
    would wait for the work before it.
    """
    if like.device.type != "cuda":
        return values.to(like.device)
    return values.pin_memory().to(like.device, non_blocking=True)


def places(masks: Sequence[Tensor], like: Tensor) -> tuple[Tensor, ...]:
    """Where each of some masks [n] on the CPU is true, as indices on the device of `like`; one copy brings them all."""
    found = [mask.nonzero().squeeze(1) for mask in masks]
    together = sent(torch.cat(found), like)
    return torch.split(together, [len(indices) for indices in found])
