"""Per-image scores, gathered batch by batch outside the timer."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tta_bench.errors import CellFailed
from tta_bench.records.predictions import Predictions
from tta_bench.streams.stream import Stream


class Scores:
    """Per-sample scores of a stream, batch by batch."""

    def __init__(self, labels: NDArray[np.int64], num_classes: int) -> None:
        self.labels = labels
        self.num_classes = num_classes
        self.images = 0
        self.hits = 0
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], Tensor, Tensor, Tensor, Tensor]] = []

    @property
    def accuracy(self) -> float:
        return self.hits / max(self.images, 1)

    @torch.no_grad()
    def add(self, indices: NDArray[np.int64], logits: Tensor) -> None:
        """Score one batch, after checking its logits."""
        expected = (len(indices), self.num_classes)
        if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise CellFailed(f"adapt returned {got} after {self.images} images, expected logits of shape {expected}")
        label = self.labels[indices]
        p = logits.float().softmax(1)
        confidence, prediction = p.max(1)
        truth = torch.from_numpy(label).to(logits.device)
        top5 = logits.topk(min(5, self.num_classes), 1).indices
        # One transfer per batch: a GPU would wait for each.
        rows = [prediction, confidence, torch.special.entr(p).sum(1), (top5 == truth[:, None]).any(1)]
        finite = torch.isfinite(logits).all(1)
        table = torch.stack([row.float() for row in (*rows, finite)]).cpu()
        if not table[4].all():
            raise CellFailed(f"adapt returned NaN or infinite logits after {self.images} images")
        found = table[0].long()
        self._parts.append((indices, label, found, table[1], table[2], table[3].bool()))
        self.images += len(indices)
        self.hits += int((found.numpy() == label).sum())

    def predictions(self, stream: Stream) -> Predictions:
        """The prediction for each image, with its task in the stream."""
        index, label, prediction, confidence, entropy, in_top5 = zip(*self._parts, strict=True)
        names = {name: number for number, name in enumerate(dict.fromkeys(stream.tasks))}
        positions = np.concatenate(index)
        return Predictions(
            index=positions.astype(np.int32),
            task=np.array([names[name] for name in stream.task_of(positions)], np.int16),
            label=np.concatenate(label).astype(np.int32),
            prediction=torch.cat(prediction).numpy().astype(np.int32),
            in_top5=torch.cat(in_top5).numpy(),
            confidence=torch.cat(confidence).numpy(),
            entropy=torch.cat(entropy).numpy(),
        )
