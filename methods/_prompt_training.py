"""Trains DePT's prompts and projection heads on labelled source images, for `tta-bench train-source --prompts`."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._draws import Draws
from ._head import frozen
from ._moco import MocoViews
from ._prompts import class_token_vit
from ._stages import Staged, agreement, fingerprint, initial_tensors, likeness
from ._weights import Teacher

TEMPERATURES, WARM = (0.04, 0.07), 0.6  # the teacher's, rising over the first three of five epochs
SMALLEST_CROP = 0.6
SMOOTHING = 0.1


class PromptTraining:
    """Cross-entropy with labels, and agreement with a slow teacher on two strong views.

    As published but for one thing: the model itself stays as it is, so that every method starts from the same
    source model. The authors' code fine-tunes it together with the prompts.
    """

    def __init__(
        self, model: nn.Module, *, num_classes: int, steps: int, seed: int, stages: int = 4, prompts: int = 50
    ) -> None:
        device = next(frozen(model).parameters()).device
        self.steps, self.done = steps, 0
        self._source = fingerprint(model, "dept-g")
        found = initial_tensors(class_token_vit(model, "dept-g").embed_dim, stages=stages, prompts=prompts, seed=seed)
        self._student = {name: tensor.to(device).requires_grad_() for name, tensor in found.items()}
        self._network = Staged(model, self._student, method="dept-g", num_classes=num_classes)
        self._teacher = Teacher(self._student, 0.99)
        self._views = MocoViews(Draws(seed), crop=True, smallest=SMALLEST_CROP)
        self._centre: Tensor | None = None
        self._warm_up = min(stages * prompts, steps // 5)
        tensors = list(self._student.values())
        self._sgd = torch.optim.SGD(tensors, lr=5e-3, momentum=0.9, nesterov=True, weight_decay=1e-4)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._sgd, self._rate)

    @torch.enable_grad()
    def step(self, images: Tensor, labels: Tensor) -> float:
        """Learn from one batch; returns its loss."""
        self._teacher.follow()
        with torch.no_grad(), self._teacher.in_place():
            wanted = self._network.project(self._network(self._views.strong(images)))
        seen = self._network(self._views.strong(images))
        projected = self._network.project(seen)
        low, high = TEMPERATURES
        warm = min(self.done / max(WARM * self.steps, 1), 1.0)
        centre = torch.zeros_like(wanted.features[0]) if self._centre is None else self._centre
        tokens, prompts = agreement(projected, wanted, centre, low + warm * (high - low))
        loss = F.cross_entropy(seen.logits, labels, label_smoothing=SMOOTHING)
        loss = loss + 0.1 * tokens + 0.1 * prompts + 0.005 * likeness(projected)
        self._sgd.zero_grad()
        torch.autograd.backward(loss)
        self._sgd.step()
        self._schedule.step()
        self._centre = 0.9 * centre + 0.1 * wanted.features.mean(0)
        self.done += 1
        return loss.item()

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        return self._network(images).logits

    def tensors(self) -> dict[str, Tensor]:
        """What `dept-g` reads: prompts and heads, and the model that they were trained for."""
        return {**{name: tensor.detach().cpu() for name, tensor in self._student.items()}, "source": self._source}

    def _rate(self, done: int) -> float:
        """A linear start, then half a cosine down to 0."""
        if done < self._warm_up:
            return (done + 1) / self._warm_up
        return 0.5 * (1 + math.cos(math.pi * min(done / self.steps, 1)))
