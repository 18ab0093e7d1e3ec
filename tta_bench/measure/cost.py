"""Counts what a method computes: exact numbers without noise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from tta_bench.models.source import entrance


class CostCounter:
    """Counts samples that pass forward and backward through a model while the context is open.

    A sample-forward is one image entering the model; a sample-backward is one image whose features
    (the classifier's input) receive a gradient, even a zero one: a masked sample that is computed anyway counts.
    Optimiser steps count for every torch optimiser.
    """

    def __init__(self, model: nn.Module) -> None:
        self.sample_forwards = 0
        self.sample_backwards = 0
        self.optimizer_steps = 0
        self._is_paused = False
        self._handles: list[Any] = []
        self._entrance = entrance(model)
        self._classifier = classifier(model)

    def __enter__(self) -> CostCounter:
        self._handles = [
            self._entrance.register_forward_pre_hook(_outside_graphs(self._on_forward)),
            self._classifier.register_forward_pre_hook(_outside_graphs(self._on_features)),
            register_optimizer_step_post_hook(self._on_step),
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count forwards inside."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def _on_forward(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not self._is_paused:
            self.sample_forwards += len(args[0])

    def _on_features(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        features = args[0]
        if features.requires_grad:
            features.register_hook(self._on_backward)

    def _on_backward(self, gradient: Tensor) -> None:
        self.sample_backwards += len(gradient)

    def _on_step(self, *optimizer: Any) -> None:
        self.optimizer_steps += 1


def _outside_graphs(hook: Callable[..., None]) -> Callable[..., None]:
    """Keep a hook out of compiled graphs: inside, each count would be a constant, and each new value a new graph.

    Only where the compiler is in use: importing it takes 1.2 s of CPU time and 84 MB.
    """
    if "torch._dynamo" not in sys.modules:
        return hook
    outside: Callable[..., None] = torch.compiler.disable(hook)
    return outside


def classifier(model: nn.Module) -> nn.Module:
    """The layer that computes logits: timm's `get_classifier`, else the last linear layer."""
    ask: Any = getattr(model, "get_classifier", lambda: None)
    found = ask()
    if isinstance(found, nn.Module):
        return found
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return linear[-1] if linear else model
