"""Entropy of predictions, and the sample filter that most methods build on it."""

from __future__ import annotations

import math

from torch import Tensor


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


def mean_reliable(entropies: Tensor, threshold: float) -> Tensor | None:
    """Mean entropy of the reliable samples among these; None when there is none."""
    kept = entropies[entropies < threshold]
    return kept.mean() if len(kept) else None
