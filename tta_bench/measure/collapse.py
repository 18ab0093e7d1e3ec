"""Collapse, from predictions alone: a method that answers with ever fewer classes, whatever it sees.

The predictions of the last images are compared with Source's on the same images, so that a stream whose classes come
one after the other raises no alarm. Mean probabilities would say more than histograms of predicted classes; records
have the latter only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.integer]

WINDOW = 128  # images
FEWER = 1 / 3  # of Source's classes, at most; chosen on digit-pairs-c-5, checked elsewhere (docs/stress.md)


@dataclass(frozen=True)
class Signals:
    """What the predictions for some images look like."""

    share: float  # of the most frequent class
    classes: float  # effective number: the exponential of the histogram's entropy
    distance: float  # of the histogram from Source's, in [0, 1]: the share of predictions that would have to change
    source_classes: float


def signals(own: Labels, source: Labels) -> Signals:
    """The signals of one window of images."""
    size = int(max(own.max(), source.max())) + 1
    ours, theirs = (np.bincount(labels, minlength=size) / len(labels) for labels in (own, source))
    return Signals(
        share=float(ours.max()),
        classes=_effective(ours),
        distance=float(np.abs(ours - theirs).sum() / 2),
        source_classes=_effective(theirs),
    )


class Alarm:
    """Follows a stream batch by batch.

    A method that recovers before the stream ends, as by a reset, has not collapsed. Where Source itself answers with
    fewer than three classes, no collapse can be seen.
    """

    def __init__(self, source: Labels, window: int = WINDOW) -> None:
        self.since: int | None = None  # the batch, from 0, from which on a method has a third of Source's classes
        self.signals: Signals | None = None  # of the last images; None before there are enough
        self.window = min(window, len(source))
        self._source = source
        self._last: Labels = source[:0]
        self._images = self._batches = 0

    def add(self, own: Labels) -> None:
        """Take the predictions for the next batch."""
        self._last = np.concatenate([self._last, own])[-self.window :]
        self._images += len(own)
        self._batches += 1
        if self._images >= self.window:
            self.signals = signals(self._last, self._source[self._images - self.window : self._images])
            is_first = self.since is None
            self.since = (self._batches - 1 if is_first else self.since) if _is_collapsed(self.signals) else None


def collapsed_at(own: Labels, source: Labels, batch_size: int, window: int = WINDOW) -> int | None:
    """The batch, from 0, from which on a method has collapsed, to the end of the stream, as `Alarm` says; or None."""
    size = min(window, len(own))
    ends = [min(end, len(own)) for end in range(batch_size, len(own) + batch_size, batch_size)]
    first = None
    for number in reversed(range(len(ends))):  # most streams end well, which the last window shows
        end = ends[number]
        if end < size or not _is_collapsed(signals(own[end - size : end], source[end - size : end])):
            break
        first = number
    return first


def _is_collapsed(found: Signals) -> bool:
    return found.classes <= FEWER * found.source_classes


def _effective(histogram: NDArray[np.float64]) -> float:
    present = histogram[histogram > 0]
    return float(np.exp(-(present * np.log(present)).sum()))
