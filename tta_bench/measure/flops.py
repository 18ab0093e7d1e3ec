"""A second witness of what a method computes: torch's dispatcher sees every matrix product, wherever it is called from.

Passes are counted at the model's entrance (cost.py). That count misses work with a copy of the model, with single
blocks or with another network. Floating-point operations (FLOPs) show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from tta_bench.measure.cost import CostCounter, classifier
from tta_bench.models.source import entrance

TOLERATED = 0.5  # forwards per image: prototypes, prompts and statistics cost less, one hidden forward costs 1


@dataclass
class Flops:
    """Operations of forward passes: inside the model, and outside of it. Backward passes have their own."""

    inside: int = 0
    outside: int = 0


class _Counter(TorchDispatchMode):
    """Counts operations; those between the model's entrance and its classifier are inside."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = Flops()
        self._is_inside = False
        self._doors = entrance(model), classifier(model)
        self._handles: list[Any] = []

    def __enter__(self) -> _Counter:
        first, last = self._doors
        self._handles = [first.register_forward_pre_hook(self._go_in), last.register_forward_hook(self._go_out)]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)  # type: ignore[no-untyped-call]
        for handle in self._handles:
            handle.remove()

    def _go_in(self, *call: Any) -> None:
        self._is_inside = True

    def _go_out(self, *call: Any) -> None:
        self._is_inside = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        count = flop_registry.get(func._overloadpacket)
        if count is not None and torch._C._current_graph_task_id() == -1:  # not in a backward pass
            found = count(*args, **kwargs, out_val=out)
            if self._is_inside:
                self.flops.inside += found
            else:
                self.flops.outside += found
        return out


def uncounted_forwards(model: nn.Module, adapt: Callable[[Tensor], Tensor], batch: Tensor) -> float:
    """Forward passes per image that `adapt` computes without passing the model's entrance; adapts once."""
    few = batch[:2]  # operations are proportional to images; BatchNorm in training mode needs two
    with torch.no_grad(), _Counter(model) as plain:
        model(few)
    with CostCounter(model) as counted, _Counter(model) as adapting:
        adapt(batch)
    one = max((plain.flops.inside + plain.flops.outside) / len(few), 1)  # of one image
    # Work in a hook of the model is inside: a pass with more than twice the operations of a plain one hides some.
    hidden = max(0.0, adapting.flops.inside - 2 * one * counted.sample_forwards)
    return (adapting.flops.outside + hidden) / (one * len(batch))


def remark(forwards: float, declared: str) -> str:
    """A remark on work outside the counted passes; empty if it is small."""
    if forwards <= TOLERATED:
        return ""
    why = f": {declared}" if declared else ", and does not say why"
    return f"computes as much as {forwards:.1f} forwards per image outside the counted passes{why}"
