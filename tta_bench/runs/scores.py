"""Per-image scores: a method's answers beside the labels, which it never sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tta_bench.records.predictions import Predictions
from tta_bench.runs.answers import Answer
from tta_bench.streams.stream import Stream


class Scores:
    """Scores a stream's answers, batch by batch."""

    def __init__(self, labels: NDArray[np.int64]) -> None:
        self.labels = labels
        self.images = 0
        self.hits = 0
        self._parts: list[tuple[NDArray[np.int64], Answer]] = []

    @property
    def accuracy(self) -> float:
        return self.hits / max(self.images, 1)

    def add(self, indices: NDArray[np.int64], answer: Answer) -> None:
        """Score the answers for these images."""
        self._parts.append((indices, answer))
        self.images += len(indices)
        self.hits += int((answer.prediction == self.labels[indices]).sum())

    def predictions(self, stream: Stream) -> Predictions:
        """The prediction for each image, with its task in the stream."""
        names = {name: number for number, name in enumerate(dict.fromkeys(stream.tasks))}
        positions = np.concatenate([indices for indices, _ in self._parts])
        answer = Answer(np.concatenate([answer.table for _, answer in self._parts], axis=1))
        label = self.labels[positions]
        return Predictions(
            index=positions.astype(np.int32),
            task=np.array([names[name] for name in stream.task_of(positions)], np.int16),
            label=label.astype(np.int32),
            prediction=answer.prediction,
            in_top5=(answer.top == label).any(0),
            confidence=answer.confidence,
            entropy=answer.entropy,
        )
