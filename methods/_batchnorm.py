"""BatchNorm layers and the statistics that they learned on source images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

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


def affine_parameters(model: nn.Module, method: str) -> dict[str, nn.Parameter]:
    """Weights and biases of the BatchNorm layers, by the model's own names."""
    norms = set(batch_norms(model, method))
    found = {
        f"{name}.{leaf}": parameter
        for name, module in model.named_modules()
        if module in norms
        for leaf, parameter in module.named_parameters(recurse=False)
    }
    if not found:
        raise UserError(f"{method} adapts weights of BatchNorm2d layers, and those of {type(model).__name__} have none")
    return found


@contextmanager
def replaced(forwards: Mapping[nn.BatchNorm2d, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Within the block each layer computes what is given for it; dropout and activation that timm adds stay."""
    for norm, forward in forwards.items():
        norm.__dict__["forward"] = _with_activation(norm, forward)
    try:
        yield
    finally:
        for norm in forwards:
            del norm.__dict__["forward"]


def _with_activation(norm: Any, forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    after = [getattr(norm, name) for name in ("drop", "act") if hasattr(norm, name)]

    def compute(maps: Tensor) -> Tensor:
        found = forward(maps.float()).to(maps.dtype)
        for change in after:
            found = change(found)
        return found

    return compute


def scaled_and_shifted(norm: nn.BatchNorm2d, maps: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """Maps [B, C, H, W] normalised by statistics [C] or [B, C], then the layer's own weight and bias."""
    scale = (var + norm.eps).rsqrt()
    scale = scale if norm.weight is None else scale * norm.weight
    shift = -mean * scale if norm.bias is None else norm.bias - mean * scale
    return maps * scale[..., None, None] + shift[..., None, None]


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
