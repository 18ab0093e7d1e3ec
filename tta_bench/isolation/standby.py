"""Who answers the batches of a live stream that a method does not adapt to."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tta_bench.errors import CellFailed
from tta_bench.isolation.adapter import Adapter
from tta_bench.method import Method
from tta_bench.models.precision import autocast
from tta_bench.records.live import Live


class Standby:
    """Answers without adapting: with the weights from before the current adaptation, with Source's, or the newest."""

    def __init__(self, session: Adapter, live: Live) -> None:
        self._session = session
        self._busy = live.busy
        self._before: Method | None = None
        self._source: nn.Module | None = None

    def start(self) -> None:
        """An adaptation begins that may still run when other batches arrive."""
        if self._busy == "stale":
            self._before = copied(self._session.method)

    @torch.no_grad()
    def predict(self, batch: Tensor, *, is_busy: bool) -> Tensor:
        """Logits of a batch. A method that is not busy answers with its newest weights."""
        setup = self._session.setup
        with autocast(setup.device, setup.amp):
            if is_busy and self._busy == "source":
                if self._source is None:
                    self._source = setup.model.fresh(setup.device, setup.class_mask, shares_weights=True).eval()
                logits: Tensor = self._source(batch)
                return logits
            method = self._before if is_busy and self._before is not None else self._session.method
            return method.predict(batch).detach()


def copied(method: Method) -> Method:
    """A copy of a method as it is now; weights that it does not adapt are shared."""
    adapted = set(map(id, method.adapted_parameters().values()))
    model = getattr(method, "model", None)
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    shared: dict[int, Any] = {id(weight): weight for weight in weights if id(weight) not in adapted}
    try:
        with _WithoutGraphs():
            return copy.deepcopy(method, shared)
    except Exception as error:  # third-party objects may refuse in any way
        raise CellFailed(
            f"{type(method).__name__} cannot be copied ({' '.join(str(error).split())}): "
            f"use --busy source or --busy released"
        ) from error


class _WithoutGraphs(TorchFunctionMode):
    """Copies tensors without their graphs, which torch refuses to copy: methods may keep some of the last batch."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.__deepcopy__ and not args[0].is_leaf:
            return args[0].detach().clone()
        return func(*args, **(kwargs or {}))
