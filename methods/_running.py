"""BatchNorm layers in a model that trains now and then: batch statistics then, and running ones that follow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


class RunningStatistics:
    """The BatchNorm layers of a model in evaluation mode; a model without any is left as it is."""

    def __init__(self, model: nn.Module) -> None:
        found = {name: module for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)}
        self._norms = {name: norm for name, norm in found.items() if norm.running_mean is not None}
        for norm in self._norms.values():
            norm.num_batches_tracked = None  # a count that nobody reads

    @property
    def there(self) -> bool:
        return bool(self._norms)

    def tensors(self) -> dict[str, Tensor]:
        """Running means and variances, live, by the model's own names."""
        return {
            f"{name}.{leaf}": getattr(norm, leaf)
            for name, norm in self._norms.items()
            for leaf in ("running_mean", "running_var")
        }

    @contextmanager
    def of_the_batch(self, *, follow: bool) -> Iterator[None]:
        """Within the block the layers normalise by the batch; the running statistics follow it, or stay."""
        for norm in self._norms.values():
            norm.training, norm.track_running_stats = True, follow
        try:
            yield
        finally:
            for norm in self._norms.values():
                norm.training, norm.track_running_stats = False, True
