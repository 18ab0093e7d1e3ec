"""Watches a method while it runs, cheaply enough to be always on: notices accidents and leftovers.

It cannot detect deliberate cheating, since the method runs in the same process; only a rerun elsewhere can.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tta_bench.errors import CellFailed
from tta_bench.method import Method

_SAME = torch.empty(0)
_HOOKS = sorted(name for name in vars(nn.Module()) if name.endswith("_hooks"))


class Watch:
    """Notes what a method did besides adapting, with one remark for each kind of violation."""

    def __init__(self, method: Method, model: nn.Module, present: Set[threading.Thread], source: nn.Module) -> None:
        """`present` are the threads that ran before the method was built; `model` was copied from `source`."""
        require_plain_values(method)
        self.remarks: list[str] = [method.caveat] if method.caveat else []
        self._note_threads(present)
        self._model = model
        free = set(map(id, method.adapted_parameters().values()))
        self._free = {name for name, parameter in model.named_parameters() if id(parameter) in free}
        self._source = dict(source.named_parameters())
        self._before = self._weights()
        self._hooks = hooks(model)

    @contextmanager
    def step(self, batch: Tensor) -> Iterator[None]:
        """Watch one step: note an input batch that the method wrote into, and threads that outlive the step."""
        version, before = batch._version, threads()
        yield
        if batch._version != version:
            self._note("changed its input batch")
        self._note_threads(before)

    def close(self) -> list[str]:
        """All remarks, after a final check of weights and hooks."""
        before, now = self._before, self._weights()
        changed = sum(not torch.equal(before[name], now[name]) for name in before.keys() & now.keys())
        changed += len(before.keys() ^ now.keys())  # added or removed
        if changed:
            self._note(f"changed {changed} weights outside adapted_parameters()")
        if hooks(self._model) != self._hooks:
            self._note("changed the model's hooks")
        return self.remarks

    @torch.no_grad()
    def _weights(self) -> dict[str, Tensor]:
        """What identifies each weight that the method declares unchanged: nothing if it is the source's, else sums.

        Comparing takes a twentieth of the time of sums.
        """
        held = {name: weight for name, weight in self._model.named_parameters() if name not in self._free}
        return {name: _SAME if self._is_source(name, weight) else _sums(weight) for name, weight in held.items()}

    def _is_source(self, name: str, weight: Tensor) -> bool:
        source = self._source.get(name)
        if source is None or (source.device, source.dtype) != (weight.device, weight.dtype):
            return False
        return source.data_ptr() != weight.data_ptr() and torch.equal(source, weight)  # not with itself

    def _note_threads(self, before: Set[threading.Thread]) -> None:
        if threads() - before:
            self._note("left a thread running")

    def _note(self, remark: str) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)


def threads() -> set[threading.Thread]:
    """The Python threads of this process; not torch's own, which show up when they call a Python hook."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}


def hooks(model: nn.Module) -> dict[str, list[Any]]:
    """The hooks of each part of a model, and forwards that replace its class's."""
    return {
        name: [part.__dict__.get("forward"), *(list(part.__dict__.get(kind, {}).values()) for kind in _HOOKS)]
        for name, part in model.named_modules()
    }


def _sums(parameter: Tensor) -> Tensor:
    """Sums of a weight; the last one depends on the order of its values."""
    values = parameter.double().flatten()
    ramp = torch.linspace(1, 2, len(values), dtype=values.dtype, device=values.device)
    return torch.stack([values.sum(), values.square().sum(), values @ ramp]).cpu()


def require_plain_values(method: Method) -> None:
    """Require plain `resets` and `score_point`: a property could do work outside the timer."""
    for name, kind in (("resets", int), ("score_point", str)):
        if isinstance(getattr(type(method), name, None), property) or type(getattr(method, name)) is not kind:
            raise CellFailed(f"{name} of {type(method).__name__} must be a plain {kind.__name__}")
