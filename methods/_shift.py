"""FOA's activation shift: move the features by what separates their moving average from the source mean."""

from __future__ import annotations

import torch
from torch import Tensor


class ActivationShift:
    """A moving average of the features that enter the classifier, live in `mean`; zeros before the first batch."""

    def __init__(self, like: Tensor) -> None:
        self.mean = torch.zeros(like.shape[1], dtype=torch.float32, device=like.device)
        self.seen = False

    def notice(self) -> None:
        """Call after something was put into `mean`: anything but zeros counts as seen."""
        self.seen = bool(self.mean.any())

    def towards(self, source_mean: Tensor, features: Tensor) -> Tensor:
        """The features, moved by the difference of the means once a batch was seen."""
        return features + (source_mean - self.mean) if self.seen else features

    def update(self, batch_mean: Tensor) -> None:
        self.mean.copy_(0.9 * self.mean + 0.1 * batch_mean if self.seen else batch_mean)
        self.seen = True
