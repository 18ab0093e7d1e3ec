"""A method's answers, image by image: all that leaves the process which adapts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tta_bench.errors import CellFailed
from tta_bench.simulated import Simulated

TOP = 5


@dataclass(frozen=True)
class Answer:
    """A method's answers for the images of one batch."""

    table: NDArray[np.float32]  # rows: prediction, confidence, entropy, energy, own score, then the top classes
    probabilities: NDArray[np.float32]  # a row for each class

    @property
    def prediction(self) -> NDArray[np.int32]:
        return np.asarray(self.table[0], np.int32)

    @property
    def confidence(self) -> NDArray[np.float32]:
        return np.asarray(self.table[1])

    @property
    def entropy(self) -> NDArray[np.float32]:
        return np.asarray(self.table[2])

    @property
    def energy(self) -> NDArray[np.float32]:
        return np.asarray(self.table[3])

    @property
    def own_score(self) -> NDArray[np.float32]:
        """NaN for a method that has none."""
        return np.asarray(self.table[4])

    @property
    def top(self) -> NDArray[np.int32]:
        """Best first."""
        return np.asarray(self.table[5:], np.int32)


@torch.no_grad()
def answer_of(logits: object, images: int, num_classes: int, *, after: int, score: object = None) -> Answer:
    """The answer in these logits, with a method's own score of the images, if it has one.

    CellFailed, with the number of images before, if they are not plain and finite.
    """
    expected = (images, num_classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise CellFailed(f"adapt returned {got} after {after} images, expected logits of shape {expected}")
    # A lazy tensor would compute outside the timer, when it is scored.
    if type(logits) not in (Tensor, Simulated) or not logits.is_floating_point():
        raise CellFailed(f"adapt returned a {type(logits).__name__} of {logits.dtype}, expected floats in a Tensor")
    if logits.requires_grad:
        raise CellFailed("adapt returned logits with a graph: detach them")
    if score is not None and not (isinstance(score, Tensor) and tuple(score.shape) == (images,)):
        got = tuple(score.shape) if isinstance(score, Tensor) else type(score).__name__
        raise CellFailed(f"known_scores returned {got} after {after} images, expected scores of shape {(images,)}")
    p = logits.float().softmax(1)
    confidence, prediction = p.max(1)
    top = logits.topk(min(TOP, num_classes), 1).indices
    own = torch.full_like(confidence, torch.nan) if score is None else score.detach()
    finite = torch.isfinite(logits).all(1)
    # One transfer per batch: a GPU would wait for each.
    entropy, energy = torch.special.entr(p).sum(1), logits.float().logsumexp(1)
    rows = [finite, prediction, confidence, entropy, energy, own, *top.T]
    table = torch.cat([torch.stack([row.float() for row in rows]), p.T]).cpu().numpy()
    if not table[0].all():
        raise CellFailed(f"adapt returned NaN or infinite logits after {after} images")
    found = Answer(table[1 : len(rows)], table[len(rows) :])
    if score is not None and not np.isfinite(found.own_score).all():
        raise CellFailed(f"known_scores returned NaN or infinite scores after {after} images")
    return found
