"""Per-image scores: a method's answers beside the labels, which it never sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.isolation.logits import Answer
from tta_bench.measure.confidence import brier_scores
from tta_bench.records.predictions import Predictions
from tta_bench.streams.stream import Stream


class Scorer:
    """Scores a stream's answers, batch by batch."""

    def __init__(self) -> None:
        self.images = 0
        self.known = 0  # images whose class the model knows
        self.hits = 0
        self._parts: list[dict[str, NDArray[Any]]] = []  # columns of Predictions for each batch

    @property
    def accuracy(self) -> float:
        return self.hits / max(self.known, 1)

    def add(self, indices: NDArray[np.int64], label: NDArray[np.int64], answer: Answer) -> None:
        """Score the answers for these images."""
        # Copies: a view would keep the probabilities of all classes in memory.
        part = {
            "index": indices.astype(np.int32),
            "label": label.astype(np.int32),
            "prediction": answer.prediction,
            "in_top5": (answer.top == label).any(0),
            "confidence": answer.confidence.copy(),
            "entropy": answer.entropy.copy(),
            "brier": brier_scores(answer.probabilities, label),
            "energy": answer.energy.copy(),
            "own_score": answer.own_score.copy(),
        }
        self._parts.append(part)
        self.images += len(indices)
        self.known += int((label >= 0).sum())
        self.hits += int((answer.prediction == label).sum())

    def predictions(self, stream: Stream | None = None) -> Predictions:
        """The prediction for each image, with its task in the stream; without a stream, there is one task."""
        columns = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        if stream is None:
            return Predictions.of_columns({**columns, "task": np.zeros(self.images, np.int16)})
        names = {name: number for number, name in enumerate(dict.fromkeys(stream.tasks))}
        task = np.array([names[name] for name in stream.task_of(columns["index"])], np.int16)
        return Predictions.of_columns({**columns, "task": task})
