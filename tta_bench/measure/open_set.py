"""How well scores separate images of known and of unknown classes, from stored predictions alone.

A score is higher for known classes. Published code takes the maximum of the softmax, the negative entropy, the energy
(the log of the summed exponentials of the logits), or a score of the method itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.records.predictions import Predictions

ACCEPTED = 95  # percent of the known images, at the threshold of FPR95
SCORES = ("softmax", "entropy", "energy", "own")

Floats = NDArray[np.floating[Any]]


def auroc(known: Floats, unknown: Floats) -> float:
    """The share of pairs of a known and an unknown image in which the known one scores higher; a tie counts half."""
    ordered = np.sort(unknown)
    below, up_to = (np.searchsorted(ordered, known, side) for side in ("left", "right"))
    return float((below.sum(dtype=np.float64) + up_to.sum(dtype=np.float64)) / (2 * len(known) * len(unknown)))


def fpr95(known: Floats, unknown: Floats) -> float:
    """The share of unknown images that the highest threshold accepts which accepts 95 % of the known ones."""
    accepted = -(-ACCEPTED * len(known) // 100)
    threshold = np.partition(known, len(known) - accepted)[len(known) - accepted]
    return int(np.count_nonzero(unknown >= threshold)) / len(unknown)


def h_score(accuracy: float, separation: float) -> float:
    """The harmonic mean of the accuracy on known classes and an AUROC."""
    total = accuracy + separation
    return 2 * accuracy * separation / total if total else 0.0


def score(found: Predictions, name: str) -> Floats | None:
    """One of `SCORES` of each image; None if it is not stored."""
    if name == "softmax":
        return found.confidence
    if name == "entropy":
        return -found.entropy
    if name == "energy":
        return found.energy
    return None if found.own_score is None or np.isnan(found.own_score).any() else found.own_score


def separations(known: Predictions, unknown: Predictions) -> dict[str, float]:
    """AUROC and FPR95 of every score that both have, as in `entropy auroc`, and the share of unknown images."""
    found = {"unknown": len(unknown) / (len(known) + len(unknown))}
    for name in SCORES:
        inside, outside = score(known, name), score(unknown, name)
        if inside is not None and outside is not None:
            found |= {f"{name} auroc": auroc(inside, outside), f"{name} fpr95": fpr95(inside, outside)}
    return found
