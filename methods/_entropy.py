"""Entropy of predictions, and the sample filter that most methods build on it."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from ._host import sent


def entropy(logits: Tensor) -> Tensor:
    """Per-sample entropy of softmax(logits), in nats."""
    log_p = logits.float().log_softmax(1)
    return -(log_p.exp() * log_p).sum(1)


def threshold_or_default(given: float | None, num_classes: int) -> float:
    """The limit below which a sample is reliable; as published, 0.4 times the largest possible entropy.

    The authors wrote ln 1000 for their 1000 classes; ln(num_classes) is the same thing for other tasks.
    """
    return 0.4 * math.log(num_classes) if given is None else given


def reliable(entropies: Tensor, threshold: float) -> Tensor:
    """Indices of the samples whose entropy is below the threshold."""
    return (entropies < threshold).nonzero().squeeze(1)


class Mean(NamedTuple):
    """A mean as a loss, and as a number that the host knows; None when there is no sample."""

    loss: Tensor | None
    value: float | None


def mean_reliable(entropies: Tensor, threshold: float) -> Mean:
    """Mean entropy of the reliable samples among these, with one wait for a GPU."""
    values = entropies.detach().cpu()
    kept = reliable(values, threshold)
    if not len(kept):
        return Mean(None, None)
    return Mean(entropies[sent(kept, entropies)].mean(), values[kept].mean().item())
