"""Watches a method while it runs, cheaply enough to be always on: notices accidents and leftovers.

It cannot detect deliberate cheating, since the method runs in the same process; only a rerun elsewhere can.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor, nn

from tta_bench.errors import CellFailed
from tta_bench.method import Method


class Watch:
    """Notes what a method did besides adapting, with one remark for each kind of violation."""

    def __init__(self, method: Method, model: nn.Module) -> None:
        require_plain_values(method)
        self.remarks: list[str] = []
        self._model = model
        self._free = set(map(id, method.adapted_parameters().values()))
        self._sums = self._checksums()
        self._threads = set(threading.enumerate())

    def batch(self, batch: Tensor, version: int) -> None:
        """Note an input batch that the method wrote into; `version` is its counter before the step."""
        if batch._version != version:
            self._note("changed its input batch")

    def close(self) -> list[str]:
        """All remarks, after a final check of weights and threads."""
        changed = sum(not torch.equal(now, self._sums[name]) for name, now in self._checksums().items())
        if changed:
            self._note(f"changed {changed} weights outside adapted_parameters()")
        if any(thread.is_alive() for thread in set(threading.enumerate()) - self._threads):
            self._note("left a thread running")
        return self.remarks

    @torch.no_grad()
    def _checksums(self) -> dict[str, Tensor]:
        """Two sums for each weight that the method declares unchanged."""
        return {
            name: torch.stack([parameter.double().sum(), parameter.double().square().sum()])
            for name, parameter in self._model.named_parameters()
            if id(parameter) not in self._free
        }

    def _note(self, remark: str) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)


def require_plain_values(method: Method) -> None:
    """Require plain `resets` and `score_point`: a property could do work outside the timer."""
    for name, kind in (("resets", int), ("score_point", str)):
        if isinstance(getattr(type(method), name, None), property) or type(getattr(method, name)) is not kind:
            raise CellFailed(f"{name} of {type(method).__name__} must be a plain {kind.__name__}")
