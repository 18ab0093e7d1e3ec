"""RDumb: ETA that returns to the source model every `reset_interval` batches.

On long streams every method of its time ended below the source model, so the simplest remedy is to start
again now and then: weights, momentum and the moving average of ETA. In between a batch is treated as in
ETA (eta.py).

Source: Press et al., "RDumb: A simple approach that questions our progress in continual test-time
adaptation", NeurIPS 2023 (oripress/CCC). As released, the reset comes before the forward of the batch
that begins a new interval, batches in which nothing was kept count too, and the rate is 2.5e-4 whatever
the batch size. The interval is 1,000 batches of 64: on a stream of 50,000 images RDumb is ETA. Departs
from the released code: it adapts BatchNorm only and stops on a ViT; all norm layers adapt here. And as
ETA does: see eta.py.
"""

from __future__ import annotations

from torch import Tensor, nn

from .eta import Eta


class Rdumb(Eta):
    """ETA with a reset every `reset_interval` batches; 0 means never."""

    paper = "Press et al., NeurIPS 2023"
    bibtex = r"""@inproceedings{press2023rdumb,
        title = {RDumb: A simple approach that questions our progress in continual test-time adaptation},
        author = {Press, Ori and Schneider, Steffen and K{\"u}mmerer, Matthias and Bethge, Matthias},
        booktitle = {Advances in Neural Information Processing Systems},
        year = {2023},
    }"""
    adapts = "all norm layers, reset at intervals"

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 2.5e-4,
        momentum: float = 0.9,
        entropy_threshold: float | None = None,
        redundancy_threshold: float = 0.05,
        reset_interval: int = 1000,
    ) -> None:
        if reset_interval < 0:
            raise ValueError(f"reset_interval is {reset_interval}, expected a number of batches, or 0 for never")
        self.reset_interval = reset_interval
        super().__init__(
            model,
            num_classes=num_classes,
            batch_size=batch_size,
            lr=lr,
            momentum=momentum,
            entropy_threshold=entropy_threshold,
            redundancy_threshold=redundancy_threshold,
        )

    def forget(self) -> None:
        super().forget()
        self._batches = 0

    def adapt(self, batch: Tensor) -> Tensor:
        if self.reset_interval and self._batches == self.reset_interval:
            self.load_adapted_state(self.snapshot)
            self.forget()
            self.resets += 1
        self._batches += 1
        return super().adapt(batch)
