"""DePT-G: prompts that were trained with the source model are tuned by pseudo-labels and by agreement with a teacher.

Our reading: the online form behind the published ImageNet-C row was never released (the code trains for 15 epochs
on a target set that it has labelled as a whole first). Network, losses, weights and rates are the authors'; how they
meet a stream is ours. Per batch, with a weak view and two strong views of each image:
1. pseudo-label: the mean prediction of the `neighbours` most similar images among what the teacher made of earlier
   batches (the bank); with fewer images in the bank, the student's own;
2. the teacher follows the student by 1 - `teacher_momentum` and looks at one strong view, the student at the other;
3. loss: cross-entropy with the pseudo-label; agreement of class tokens and of each stage's prompts with the teacher's
   (`_stages.py`); minus the entropy of the batch's mean prediction; prompts of an image should differ. One step;
4. the teacher's weak view joins the bank; the logits are the student's for the plain images, after the step.
Prompts (50 in each of 4 stages), the classifier and the projection heads adapt, all else stays.

It needs prompts and heads that were trained on source: `tta-bench train-source DATA --prompts` writes the file that
`prompts` names. Departs from the code, besides the stream: the rate stays as it starts, since a stream's length is
unknown; the bank begins empty and keeps the newest `queue_size` images; the source model is not fine-tuned along with
the prompts, so that all methods start from the same one; the teacher's centre moves to the batch's mean, as in the
authors' distributed runs (a single process of their code adds the sum).

Source: Gao et al., "Visual Prompt Tuning for Test-time Domain Adaptation", 2022 (yhygao/DePT).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.errors import UserError
from tta_bench.method import Method

from ._draws import Draws
from ._head import frozen, full_precision
from ._moco import MocoViews
from ._optim import Sgd, clipped, gradients
from ._prompt_training import PromptTraining
from ._ranges import not_negative, positive
from ._stages import Projected, Seen, Staged, agreement, fingerprint, likeness
from ._weights import Teacher, without_twins

HOW = "`tta-bench train-source DATA --prompts` makes them; then --set dept-g.prompts=FILE"


class DeptG(Method):
    """Prompt tuning with memory-refined pseudo-labels and a self-distilling teacher, in one pass."""

    paper = "Gao et al., 2022 (our reading)"
    bibtex = """@misc{gao2022dept,
        title = {Visual Prompt Tuning for Test-time Domain Adaptation},
        author = {Gao, Yunhe and Shi, Xingjian and Zhu, Yi and Wang, Hao and Tang, Zhiqiang and Zhou, Xiong and Li, Mu
            and Metaxas, Dimitris N.},
        howpublished = {arXiv:2210.04831},
        year = {2022},
    }"""
    adapts = "prompts, classifier and projection heads; a teacher follows them"
    passes = "5 forwards, 1 backward"
    passes_per_image = (5, 1)
    kind = "prompts"
    needs = ("prompts trained on source",)
    published_batch_size = 128
    score_point = "post-update"
    computes_besides = "prompts that lengthen each sequence, and projection heads"
    prompt_training = PromptTraining

    @classmethod
    def files(cls, settings: Mapping[str, Any]) -> list[Path]:
        return [Path(settings["prompts"])] if settings.get("prompts") else []

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        prompts: str | None = None,
        lr: float = 5e-3,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        teacher_momentum: float = 0.99,
        teacher_temperature: float = 0.07,
        neighbours: int = 10,
        queue_size: int = 16_384,
        pseudo_label_weight: float = 1.0,
        token_weight: float = 0.1,
        prompt_weight: float = 0.1,
        diversity_weight: float = 1.0,
        prompt_diversity_weight: float = 0.05,
        max_grad_norm: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if neighbours < 1:
            raise ValueError(f"neighbours is {neighbours}, expected 1 or more")
        if queue_size < max(batch_size, neighbours):
            raise ValueError(f"queue_size is {queue_size}, expected at least the batch size and the neighbours")
        positive(teacher_temperature=teacher_temperature, max_grad_norm=max_grad_norm)
        not_negative(
            pseudo_label_weight=pseudo_label_weight,
            token_weight=token_weight,
            prompt_weight=prompt_weight,
            diversity_weight=diversity_weight,
            prompt_diversity_weight=prompt_diversity_weight,
        )
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.teacher_temperature, self.max_grad_norm = teacher_temperature, max_grad_norm
        self.neighbours, self.queue_size, self.seed = neighbours, queue_size, seed
        self._loss_weights = (
            pseudo_label_weight,
            token_weight,
            prompt_weight,
            diversity_weight,
            prompt_diversity_weight,
        )
        device = next(frozen(model).parameters()).device
        added = {name: tensor.to(device) for name, tensor in _read(prompts, model).items()}
        self._network = Staged(model, added, method="dept-g", num_classes=num_classes)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        classifier = {names[id(tensor)]: tensor for tensor in self._network.head.linear.parameters()}
        self._student: dict[str, Tensor] = {**added, **classifier}
        for tensor in self._student.values():
            tensor.requires_grad_(True)
        self._teacher = Teacher(self._student, teacher_momentum)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return {**self._student, **self._teacher.values}

    def remember(self) -> None:
        self._start = without_twins(self.adapted_state())

    def forget(self) -> None:
        tensors, nesterov = list(self._student.values()), self.momentum > 0
        self._sgd = Sgd(tensors, lr=self.lr, momentum=self.momentum, nesterov=nesterov, weight_decay=self.weight_decay)
        self._draw = MocoViews(Draws(self.seed), crop=True)
        like = self._network.head.linear.weight
        self._centre: Tensor | None = None
        self._bank_features = like.new_empty(0, like.shape[1])
        self._bank_predictions = like.new_empty(0, self.num_classes)

    def views(self, images: Tensor, count: int = 3) -> Tensor:
        """A weak view of each image, and `count` - 1 strong ones: [count, B, 3, H, W]."""
        return torch.stack([self._draw.weak(images), *(self._draw.strong(images) for _ in range(count - 1))])

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self._network(batch).logits}

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        weak, one, other = self.views(batch, 3)
        labels = self._pseudo_labels(weak)
        self._teacher.follow()
        with torch.no_grad(), self._teacher.in_place():
            wanted, slow = self._network(torch.cat([one, weak])).halves()
            target = self._network.project(wanted)
        seen = self._network(other)
        self._sgd.step(self._clipped(gradients(self._loss(seen, target, labels), self._sgd.tensors)))
        mean = target.features.mean(0)
        self._centre = 0.1 * mean if self._centre is None else 0.9 * self._centre + 0.1 * mean
        self._bank(slow)
        with torch.no_grad():
            return self._network(batch).logits

    @torch.no_grad()
    def _pseudo_labels(self, weak: Tensor) -> Tensor:
        seen = self._network(weak)
        if len(self._bank_features) < self.neighbours:
            return seen.logits.argmax(1)
        with full_precision(weak):
            alike = F.normalize(seen.features, dim=1) @ self._bank_features.T
        nearest = alike.topk(self.neighbours, dim=1).indices
        return self._bank_predictions[nearest].mean(1).argmax(1)

    def _loss(self, seen: Seen, target: Projected, labels: Tensor) -> Tensor:
        projected = self._network.project(seen)
        centre = torch.zeros_like(target.features[0]) if self._centre is None else self._centre
        mean = seen.logits.softmax(1).mean(0)
        losses = (
            F.cross_entropy(seen.logits, labels),
            *agreement(projected, target, centre, self.teacher_temperature),
            (mean * (mean + 1e-8).log()).sum(),
            likeness(projected),
        )
        return torch.stack([weight * loss for weight, loss in zip(self._loss_weights, losses, strict=True)]).sum()

    def _clipped(self, grads: tuple[Tensor, ...]) -> list[Tensor]:
        """Each gradient by itself, but for those of the projection heads, as released."""
        named = zip(self._student, grads, strict=True)
        return [g if name.startswith("heads.") else clipped([g], self.max_grad_norm)[0] for name, g in named]

    def _bank(self, seen: Seen) -> None:
        """Keep the newest features, as unit vectors, with their predictions."""
        features, predictions = F.normalize(seen.features, dim=1), seen.logits.softmax(1)
        self._bank_features = torch.cat([self._bank_features, features])[-self.queue_size :]
        self._bank_predictions = torch.cat([self._bank_predictions, predictions])[-self.queue_size :]


def _read(prompts: str | None, model: nn.Module) -> dict[str, Tensor]:
    """Prompts and heads from a file, if they were trained for this model."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if prompts is None:
        raise UserError(f"dept-g needs prompts that were trained with the source model: {HOW}")
    path = Path(prompts).expanduser()
    try:
        found = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"dept-g: {path} is no readable safetensors file ({error}); {HOW}") from error
    source = found.pop("source", None)
    if source is None or "prompts.0" not in found:
        raise UserError(f"dept-g: {path} holds no prompts; {HOW}")
    if not torch.equal(source, fingerprint(model, "dept-g")):
        raise UserError(f"dept-g: the prompts of {path} were trained for another model; {HOW}")
    return dict(found)
