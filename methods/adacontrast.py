"""AdaContrast, in one pass: pseudo-labels that neighbours agree on, and contrast between views of different classes.

Per batch, with a weak view w and two strong views q and k of each image (`_moco.py`):
1. pseudo-label of w: the model's own guess, and once `warmup_samples` were seen, the mean prediction of the nearest
   `neighbours` among what a slow teacher made of earlier weak views (the bank);
2. the teacher follows the model by 1 - `teacher_momentum`, and makes a key of k;
3. three losses on q: cross-entropy with the pseudo-label; contrast of q with its key against a queue of earlier keys,
   but for those that had the same pseudo-label; minus the entropy of the batch's mean prediction, so that not all
   samples end up in one class. One step; the keys join the queue, the teacher's view of w the bank;
4. the logits are those of the plain images after the step.

Source: Chen et al., "Contrastive Test-Time Adaptation", CVPR 2022 (DianCh/AdaContrast). The authors' code labels the
whole target set first and trains for 15 epochs; the single-pass form is that of mariodoebler/test-time-adaptation, with
its rate, held to it as released, quirks included: classifier, class token and positions do not learn; the bank's first
overwrite hits its newest batch, so that the bank may exceed `queue_size` by up to a batch; labels of the newest keys
mask negatives whose features are still those they replaced. `augmentation="moco-v2-light"`, without random crops, is
its choice for corrupted images, "moco-v2" the paper's. On BatchNorm models the passes of step 1 to 3 normalise by the
batch, those of step 4 by running statistics, which follow the passes of the model itself.
Departs from it: one image at a time works, where it stops; a bank that is still empty is not searched; dropout is off
in training passes too; no graph for the weak view.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.errors import UserError
from tta_bench.method import Method

from ._draws import Draws
from ._head import Head, full_precision
from ._moco import MocoViews
from ._optim import Sgd, gradients
from ._ranges import not_negative
from ._running import RunningStatistics
from ._weights import Teacher, weights_and_biases, without_twins


class Adacontrast(Method):
    """Self-training on refined pseudo-labels with a class-aware contrastive loss."""

    paper = "Chen et al., CVPR 2022"
    bibtex = """@inproceedings{chen2022adacontrast,
        title = {Contrastive Test-Time Adaptation},
        author = {Chen, Dian and Wang, Dequan and Darrell, Trevor and Ebrahimi, Sayna},
        booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
        year = {2022},
    }"""
    adapts = "all weights and biases but the classifier's; a teacher follows them"
    passes = "5 forwards, 1 backward"
    passes_per_image = (5, 1)
    kind = "all weights"
    published_batch_size = 128
    computes_besides = "distances to the features in its queue"
    score_point = "post-update"

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 2e-4,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        teacher_momentum: float = 0.999,
        temperature: float = 0.07,
        queue_size: int = 16_384,
        neighbours: int = 10,
        warmup_samples: int = 1024,
        pseudo_label_weight: float = 1.0,
        contrast_weight: float = 1.0,
        diversity_weight: float = 1.0,
        augmentation: Literal["moco-v2-light", "moco-v2"] = "moco-v2-light",
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if queue_size < batch_size:
            raise ValueError(f"queue_size is {queue_size}, expected at least the batch size, {batch_size}")
        if neighbours < 1:
            raise ValueError(f"neighbours is {neighbours}, expected 1 or more")
        if temperature <= 0:
            raise ValueError(f"temperature is {temperature}, expected a number above 0")
        not_negative(
            warmup_samples=warmup_samples,
            pseudo_label_weight=pseudo_label_weight,
            contrast_weight=contrast_weight,
            diversity_weight=diversity_weight,
        )
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.temperature, self.queue_size = temperature, queue_size
        self.neighbours, self.warmup_samples = neighbours, warmup_samples
        self._loss_weights = pseudo_label_weight, contrast_weight, diversity_weight
        self.augmentation, self.seed = augmentation, seed
        self._head = Head(model, method="adacontrast", num_classes=num_classes)
        self._student = weights_and_biases(model, without=[self._head.linear])
        self._teacher = Teacher(weights_and_biases(model), teacher_momentum)
        model.eval().requires_grad_(False)
        for parameter in self._student.values():
            parameter.requires_grad_(True)
        self._statistics = RunningStatistics(model)
        self._queue_features, self._queue_labels = self._first_queue()
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        queue = {"queue_features": self._queue_features, "queue_labels": self._queue_labels}
        return {**self._student, **self._statistics.tensors(), **self._teacher.values, **queue}

    def remember(self) -> None:
        self._start = without_twins(self.adapted_state())

    def forget(self) -> None:
        tensors: list[Tensor] = list(self._student.values())
        self._sgd = Sgd(
            tensors, lr=self.lr, momentum=self.momentum, nesterov=self.momentum > 0, weight_decay=self.weight_decay
        )
        self._draw = MocoViews(Draws(self.seed), crop=self.augmentation == "moco-v2")
        like = self._head.linear.weight
        self._bank_features = like.new_empty(0, self._head.linear.in_features)
        self._bank_predictions = like.new_empty(0, self.num_classes)
        self._bank_next = self._queue_next = self._seen = 0

    def views(self, images: Tensor, count: int = 3) -> Tensor:
        """A weak view of each image, and `count` - 1 strong ones: [count, B, 3, H, W]."""
        return torch.stack([self._draw.weak(images), *(self._draw.strong(images) for _ in range(count - 1))])

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        if len(batch) > self.queue_size:
            raise UserError(
                f"adacontrast: a batch of {len(batch)} images does not fit into queue_size {self.queue_size}"
            )
        weak, query, key = self.views(batch, 3)
        labels = self._pseudo_labels(weak)
        self._teacher.follow()
        with torch.no_grad(), self._teacher.in_place():
            keys = F.normalize(self._look(key, follow=False)[1], dim=1)
            slow_logits, slow_features = self._look(weak, follow=False)
        places = _places(self._queue_next, len(batch), self.queue_size, batch.device)
        self._queue_labels[places] = labels
        logits, features = self._look(query, follow=True)
        self._sgd.step(gradients(self._loss(logits, features, keys, labels), self._sgd.tensors))
        self._queue_features[places] = keys
        self._queue_next = (self._queue_next + len(batch)) % self.queue_size
        self._bank(slow_features, slow_logits)
        with torch.no_grad():
            return self._head(batch)

    def _look(self, images: Tensor, *, follow: bool) -> tuple[Tensor, Tensor]:
        """Logits and features of a training pass; running statistics follow it or stay."""
        count = len(images)
        if count == 1 and self._statistics.there:
            images = images.expand(2, -1, -1, -1)  # a map of one pixel has no statistics, with its copy it has
        with self._statistics.of_the_batch(follow=follow):
            logits = self._head(images)[:count]
        return logits.float(), self._head.take(count).float()

    @torch.no_grad()
    def _pseudo_labels(self, weak: Tensor) -> Tensor:
        logits, features = self._look(weak, follow=True)
        if self._seen < self.warmup_samples:
            self._seen += len(weak)
            return logits.argmax(1)
        if not len(self._bank_features):
            return logits.argmax(1)
        with full_precision(features):
            likeness = F.normalize(features, dim=1) @ self._bank_features.T
        nearest = likeness.topk(min(self.neighbours, likeness.shape[1]), dim=1).indices
        return self._bank_predictions[nearest].mean(1).argmax(1)

    def _loss(self, logits: Tensor, features: Tensor, keys: Tensor, labels: Tensor) -> Tensor:
        """The weighted sum of the three losses on the query view."""
        query = F.normalize(features, dim=1)
        with full_precision(query):
            negatives = query @ self._queue_features.T
        # As released: the queue has the labels of this batch already, but not yet the features that they belong to.
        same_class = labels[:, None] == self._queue_labels
        likeness = torch.cat(
            [(query * keys).sum(1, keepdim=True), negatives.masked_fill(same_class, -torch.inf)], dim=1
        )
        mean = logits.softmax(1).mean(0)
        losses = (
            F.cross_entropy(logits, labels),
            (likeness / self.temperature).log_softmax(1)[:, 0].mean().neg(),
            (mean * (mean + 1e-8).log()).sum(),
        )
        return torch.stack([weight * loss for weight, loss in zip(self._loss_weights, losses, strict=True)]).sum()

    def _bank(self, features: Tensor, logits: Tensor) -> None:
        """Keep features, as unit vectors, and predictions; grow first, overwrite later."""
        features, predictions = F.normalize(features, dim=1), logits.softmax(1)
        if len(self._bank_features) < self.queue_size:
            self._bank_features = torch.cat([self._bank_features, features])
            self._bank_predictions = torch.cat([self._bank_predictions, predictions])
        else:
            places = _places(self._bank_next, len(features), len(self._bank_features), features.device)
            self._bank_features[places], self._bank_predictions[places] = features, predictions
        # As released, it stays a batch behind while the bank grows.
        self._bank_next = (self._bank_next + len(features)) % len(self._bank_features)

    def _first_queue(self) -> tuple[Tensor, Tensor]:
        """Random unit vectors with random labels."""
        draws, weight = Draws(self.seed), self._head.linear.weight
        features = torch.randn(self.queue_size, self._head.linear.in_features, generator=draws.cpu)
        labels = draws.whole(self.num_classes, self.queue_size)
        return F.normalize(features, dim=1).to(weight), labels.to(weight.device)


def _places(start: int, count: int, size: int, device: torch.device) -> Tensor:
    """The next places of a ring."""
    return (start + torch.arange(count, device=device)) % size
