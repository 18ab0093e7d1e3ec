"""Where a method starts: its answers to the first batch beside those of the untouched source model.

A method that answers before its first update should answer as Source does. One that does not has moved the model
before it learned anything, by random new layers or by statistics of the batch.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tta_bench.data import loading
from tta_bench.isolation.adapter import Setup
from tta_bench.isolation.logits import Answer, answer_of
from tta_bench.models.precision import autocast
from tta_bench.records.spec import BASELINE

Predictions = NDArray[np.int32]

_MOST_KNOWN = 1024
_known: dict[tuple[object, ...], Predictions] = {}  # Source's, by model and images: all methods share a first batch


class Start:
    """The first batch of a stream, and what the method answered."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._images = torch.empty(0)
        self._answered: Predictions | None = None

    def keep(self, batch: Tensor, answer: Answer) -> None:
        """Keep a stream's first batch, as the bytes that it came from; later ones are ignored."""
        if self._answered is None:
            self._images = (batch * 255).round().to(torch.uint8).cpu()
            self._answered = answer.prediction

    def differing(self) -> int | None:
        """How many of these answers are not Source's; None before any batch.

        Costs one forward for all methods of a process on the same stream. It comes after everything was measured.
        """
        setup, answered = self._setup, self._answered
        if answered is None:
            return None
        digest = hashlib.sha256(self._images.numpy().tobytes()).hexdigest()
        key = (setup.model.weights_hash, setup.class_mask, setup.amp, str(setup.device), digest)
        if setup.method == BASELINE:
            _known[key] = answered
        elif key not in _known:
            _known[key] = source_answers(setup, next(iter(loading.on_device([self._images], setup.device))))
        while len(_known) > _MOST_KNOWN:
            del _known[next(iter(_known))]
        return int((answered != _known[key]).sum())


@torch.no_grad()
def source_answers(setup: Setup, batch: Tensor) -> Predictions:
    """What the untouched source model predicts for a batch on the device."""
    model = setup.model.fresh(setup.device, setup.class_mask, shares_weights=True).eval()
    with autocast(setup.device, setup.amp):
        logits = model(batch)
    return answer_of(logits, len(batch), setup.num_classes, after=0).prediction
