"""RoTTA: a slow teacher, learned from a memory of recent, sure and class-balanced images.

A stream may bring one class after the other, so neither a batch nor its statistics stand for all of it. Per batch:
1. the teacher, a moving average of the adapted model, predicts: the logits;
2. each image in turn asks for a place in the memory. A class has `memory_size` / classes places. The images of a full
   class, or of the largest classes of a full memory, are compared by `age_weight` * sigmoid(age) +
   `uncertainty_weight` * entropy: the worst one makes room, unless the newcomer is no better;
3. after every `update_frequency` images, also in the middle of a batch: cross-entropy of the student on augmented
   images of the memory with the teacher on plain ones, the less the older they are; one Adam step on the norm layers;
   the teacher takes 1 - `teacher_momentum` of a step towards the student.
BatchNorm layers normalise by robust statistics: a share `bn_momentum` of the memory joins them in step 3 before they
are used, with gradient. Student and teacher have their own.

Source: Yuan et al., "Robust Test-Time Adaptation in Dynamic Scenarios", CVPR 2023 (BIT-DA/RoTTA), which knows
BatchNorm only. LayerNorm and GroupNorm adapt as in mariodoebler/test-time-adaptation, whose first update raises a
TypeError (its loss is called with an argument too many); ours runs. As released, images that follow an update in the
same batch keep the predictions from before it, and the quota of a class is no whole number: with 64 places, 10 classes
may have 7 each and 1000 classes one. Departs from the code, with the same result: where samples do not interact, the
teacher does not predict again what it has predicted since its last step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tta_bench.errors import UserError
from tta_bench.method import Method

from ._augment import ColourAndAffine
from ._draws import Draws
from ._host import sent
from ._lean import Lean
from ._memory import Memory
from ._norms import norm_parameters
from ._optim import Adam, gradients
from ._ranges import at_least_one, not_negative, shares
from ._running import OwnStatistics
from ._weights import Teacher, without_twins


@dataclass(eq=False)
class Kept:
    """An image in the memory."""

    image: Tensor
    number: int  # in the stream
    uncertainty: float
    logits: Tensor  # the teacher's
    update: int  # after which they were made


class Rotta(Method):
    """Self-training by a weight-averaged teacher on a memory that weighs timeliness and certainty."""

    paper = "Yuan et al., CVPR 2023"
    bibtex = """@inproceedings{yuan2023rotta,
        title = {Robust Test-Time Adaptation in Dynamic Scenarios},
        author = {Yuan, Longhui and Xie, Binhui and Li, Shuang},
        booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
        year = {2023},
    }"""
    adapts = "all norm layers and BatchNorm statistics; a teacher follows them"
    passes = "1 forward; 2 forwards and 1 backward of the memory at each update"
    passes_per_image = (3, 1)
    kind = "norms"
    published_batch_size = 64

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 1e-3,
        memory_size: int = 64,
        update_frequency: int = 64,
        teacher_momentum: float = 0.999,
        bn_momentum: float = 0.05,
        age_weight: float = 1.0,
        uncertainty_weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        at_least_one(memory_size=memory_size, update_frequency=update_frequency)
        not_negative(age_weight=age_weight, uncertainty_weight=uncertainty_weight)
        shares(bn_momentum=bn_momentum)
        self.lr, self.bn_momentum, self.seed = lr, bn_momentum, seed
        self.memory_size, self.update_frequency = memory_size, update_frequency
        self.age_weight, self.uncertainty_weight = age_weight, uncertainty_weight
        self._student = norm_parameters(model)
        self._teacher = Teacher(self._student, teacher_momentum)
        model.eval().requires_grad_(False)
        for parameter in self._student.values():
            parameter.requires_grad_(True)
        self._of_student, self._of_teacher = OwnStatistics(model), OwnStatistics(model)
        self._forward = Lean(model)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return {**self._student, **self._teacher.values}

    def remember(self) -> None:
        self._start = without_twins(self.adapted_state())

    def forget(self) -> None:
        self._adam = Adam(list(self._student.values()), lr=self.lr)
        self._of_student.forget()
        self._of_teacher.forget()
        self._memory: Memory[Kept] = Memory(self.memory_size, self.num_classes)
        self._views = ColourAndAffine(Draws(self.seed), padding="edge", blur=True, noise=0.005)
        self._seen = self._updates = 0

    def augment(self, images: Tensor) -> Tensor:
        """What the student sees: colours, turn, shift, blur, flip and noise, one draw for all images."""
        return self._views(images)

    def adapt(self, batch: Tensor) -> Tensor:
        logits, made_after = self.predict(batch), self._updates
        p = logits.float().softmax(1)
        uncertainties = -(p * (p + 1e-6).log()).sum(1)
        found = torch.stack([p.argmax(1).to(p), uncertainties], dim=1).tolist()  # together: one wait for a GPU
        for i, (label, uncertainty) in enumerate(found):
            if self._has_place(label := int(label), uncertainty):
                kept = Kept(batch[i].clone(), self._seen, uncertainty, logits[i].clone(), made_after)
                self._memory.classes[label].append(kept)
            self._seen += 1
            if self._seen % self.update_frequency == 0:
                self._learn()
        return logits

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        with self._teacher.in_place(), self._of_teacher.lent():
            return {"logits": self._forward(batch)}

    def _has_place(self, label: int, uncertainty: float) -> bool:
        """Whether a newcomer enters; the image that it replaces is gone then."""
        memory = self._memory
        has_reached_quota = len(memory.classes[label]) >= self.memory_size / self.num_classes
        if not has_reached_quota and not memory.is_full:
            return True
        rivals = [label] if has_reached_quota else memory.largest()
        # Of equal scores the last one counts, as released.
        worst = max(
            (self._score(self._age(item), item.uncertainty), c, i)
            for c in rivals
            for i, item in enumerate(memory.classes[c])
        )
        if worst[0] <= self._score(0, uncertainty):
            return False
        del memory.classes[worst[1]][worst[2]]
        return True

    def _score(self, age: float, uncertainty: float) -> float:
        """High for what should go: old and unsure images."""
        old = self.age_weight / (1 + math.exp(-age))
        return old + self.uncertainty_weight * uncertainty / math.log(max(self.num_classes, 2))

    def _age(self, item: Kept) -> float:
        """How many images came since, as a share of the memory's size."""
        return (self._seen - item.number) / self.memory_size

    @torch.enable_grad()
    def _learn(self) -> None:
        items = self._memory.items()
        images = torch.stack([item.image for item in items])
        target = self._taught(items, images).float().softmax(1)
        views = self.augment(images)
        if views.shape != images.shape:
            raise UserError(f"rotta: augment() made {tuple(views.shape)} of {tuple(images.shape)}, expected that shape")
        with self._of_student.mixing(self.bn_momentum):
            log_p = self._forward(views).float().log_softmax(1)
        ages = sent(torch.tensor([self._age(item) for item in items]), images)
        loss = ((-ages).sigmoid() * -(target * log_p).sum(1)).mean()
        self._adam.step(gradients(loss, self._adam.tensors))
        self._teacher.follow()
        self._updates += 1

    @torch.no_grad()
    def _taught(self, items: list[Kept], images: Tensor) -> Tensor:
        """The teacher's logits of the memory."""
        with self._teacher.in_place(), self._of_teacher.mixing(self.bn_momentum):
            if self._of_teacher.there:
                return self._forward(images)
            old = [i for i, item in enumerate(items) if item.update < self._updates]
            if old:
                for i, row in zip(old, self._forward(images[sent(torch.tensor(old), images)]), strict=True):
                    items[i].logits, items[i].update = row, self._updates
        return torch.stack([item.logits for item in items])
