"""BatchNorm layers and the statistics that they learned on source images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from tta_bench.errors import UserError


def batch_norms(model: nn.Module, method: str) -> list[nn.BatchNorm2d]:
    """The BatchNorm layers of a model that has some, each with source statistics."""
    found = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    if not found:
        raise UserError(f"{method} adapts the statistics of BatchNorm2d layers, and {type(model).__name__} has none")
    if any(module.running_mean is None for module in found):
        raise UserError(f"{method}: a BatchNorm2d of {type(model).__name__} keeps no statistics of the source data")
    return found


class SourceStatistics:
    """The statistics of all BatchNorm layers as they were at the start, to be put back for a while."""

    def __init__(self, model: nn.Module) -> None:
        found = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        self._kept = [(module, module.running_mean, module.running_var) for module in found]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Within the block the layers normalise as the source model does, and afterwards as before."""
        now = [(module, module.running_mean, module.running_var) for module, *_ in self._kept]
        put(self._kept)
        try:
            yield
        finally:
            put(now)


def put(statistics: Sequence[tuple[nn.BatchNorm2d, Tensor | None, Tensor | None]]) -> None:
    """Give each layer its mean and variance."""
    for module, mean, var in statistics:
        module.running_mean, module.running_var = mean, var
