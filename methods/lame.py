"""LAME: correct the predictions of a batch by each other, and leave the model alone.

Images with similar features should get similar labels. Per batch: a forward gives probabilities p and the
features that enter the classifier; affinities W between the images come from the normalised features.
Then Y = softmax(log p + W Y) is repeated from Y = p until the energy of the labelling settles. Y is the
answer. There is no state between batches.

`affinity` is "kNN" (1 for the `knn` nearest images of each, in one direction unless `force_symmetry`),
"rbf" (a Gaussian whose width is the mean distance to the `knn`-th nearest, the image itself counted) or
"linear" (cosines).

Source: Boudiaf et al., "Parameter-free Online Test-time Adaptation", CVPR 2022 (fiveai/LAME), with its
defaults, rbf and 5; the FOA authors report kNN, 5 and symmetric under the same name. Departs from the
released code: it returns probabilities, this log probabilities; its rbf gives NaN where its width is
zero: for `knn` 1, a single image, or images that are all the same. Here images at distance zero then get
affinity 1, which is what ever smaller widths tend to; no prediction changes by it. On a single image kNN
returns the source model's answer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.method import Method

from ._head import Head, frozen, full_precision

Affinity = Literal["kNN", "rbf", "linear"]
ITERATIONS, TOLERANCE = 100, 1e-8
UNREAD = 8
NEVER = -1  # the last iteration then counts


class Lame(Method):
    """Labels of a batch that agree with the model and with those of similar images."""

    paper = "Boudiaf et al., CVPR 2022"
    bibtex = """@inproceedings{boudiaf2022lame,
        title = {Parameter-free Online Test-time Adaptation},
        author = {Boudiaf, Malik and Mueller, Romain and Ben Ayed, Ismail and Bertinetto, Luca},
        booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
        year = {2022},
    }"""
    adapts = "nothing: the predictions are corrected"
    passes = "1 forward"
    passes_per_image = (1, 0)
    published_batch_size = 64

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        affinity: Affinity = "rbf",
        knn: int = 5,
        force_symmetry: bool = False,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if knn < 1:
            raise ValueError(f"knn is {knn}, expected 1 or more")
        self.affinity = affinity
        self.knn = knn
        self.force_symmetry = force_symmetry
        self._head = Head(frozen(model), method="lame", num_classes=num_classes)

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        logits, features = self._head.look(batch)
        with full_precision(batch):
            return agree(logits.float(), self._affinities(features.float()))

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self.adapt(batch)}

    def _affinities(self, features: Tensor) -> Tensor:
        units = F.normalize(features)
        if self.affinity == "linear":
            affinities = units @ units.T
        else:
            # As norms of differences: a product of matrices gives no exact zeros, and may swap neighbours.
            distances = torch.stack([(units - unit).norm(dim=1) for unit in units])
            affinities = (nearest if self.affinity == "kNN" else gaussian)(distances, self.knn)
        return (affinities + affinities.T) / 2 if self.force_symmetry else affinities


def nearest(distances: Tensor, knn: int) -> Tensor:
    """1 for the `knn` nearest others of each row; the first is taken for the image itself and dropped."""
    others = distances.topk(min(knn + 1, len(distances)), largest=False).indices[:, 1:]
    return torch.zeros_like(distances).scatter_(1, others, 1.0)


def gaussian(distances: Tensor, knn: int) -> Tensor:
    """exp(-d^2 / 2 s^2), with s the mean distance to the `knn`-th nearest image; the nearest is the image itself."""
    width = distances.topk(min(knn, len(distances)), largest=False).values[:, -1].mean()
    scaled = torch.where(distances == 0, 0.0, distances.square() / (2 * width.square()))
    return (-scaled).exp()


def agree(logits: Tensor, affinities: Tensor) -> Tensor:
    """Log probabilities of the labelling on which the model and the affinities agree.

    The iteration at which the float32 energy stops changing counts, so rounding decides, and one more may move Y by
    1e-3. Hence the operations are those of the released code, in its order. Energies are read `UNREAD` at a time: the
    host waits for a GPU that much less often, and the iterations that came too late are dropped.
    """
    unary = -(logits.softmax(1) + 1e-10).log()
    labels, pulls, energies = (-unary).softmax(1), [], []
    for i in range(1, ITERATIONS + 1):
        pulls.append(affinities @ labels)
        labels = (-unary + pulls[-1]).softmax(1)
        energies.append((unary * labels - pulls[-1] * labels + labels * labels.clamp(min=1e-20).log()).sum())
        if i % UNREAD == 0 or i == ITERATIONS:
            last = settled(torch.stack(energies).tolist())
            if last != NEVER:
                break
    return (-unary + pulls[last]).log_softmax(1)


def settled(energies: list[float]) -> int:
    """The first iteration, from the third on, whose energy is that of the one before."""
    pairs = enumerate(pairwise(energies[1:]), start=2)
    return next((i for i, (before, now) in pairs if abs(now - before) <= TOLERANCE * abs(before)), NEVER)
