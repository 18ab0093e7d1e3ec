"""RMT: a student and a slow teacher that agree, with features near the source's prototypes, replaying source images.

From labelled source images come the mean features of each class (prototypes), and a warm-up: `warmup_steps` steps of
step 1 below on source batches with a rising rate. Per batch, with an altered view of each image:
1. self-training: symmetric cross-entropy of the student on images and views with the teacher on images. Its gradient
   does not fade where both agree;
2. contrast: an image, its view and the prototype nearest to it, each through a small learned projector, attract each
   other and repel those of the other images;
3. source replay: cross-entropy on the next source batch with its true labels;
4. one step on the sum, on all weights and biases and the projector; the teacher takes 1 - `teacher_momentum` of a step
   towards the student.
The logits are the sum of student's and teacher's, from before the step, as released. That is twice the scale of others,
so confidences are higher.

Source: Döbler et al., "Robust Mean Teacher for Continual and Gradual Test-Time Adaptation", CVPR 2023
(mariodoebler/test-time-adaptation). The defaults are those for ImageNet-C; for CIFAR it is Adam at 1e-3. As released,
class token and positions of a ViT do not adapt, and `reset` returns to the weights after the warm-up, momentum
included. `source_weight=0` replays no source images; prototypes still need them. Departs from the code: the warm-up
takes one pass over the source images, at most the published 50,000, where `warmup_steps` does not say; a class without
source images has no prototype, where its NaN is everyone's nearest and spoils all weights; the classifier of timm's
models learns, too, where the code takes it off and stops in the warm-up; a single image is learned from by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.errors import UserError
from tta_bench.method import Method

from ._augment import ColourAndAffine
from ._contrast import contrast, first_projector, projected
from ._draws import Draws
from ._head import Head, full_precision
from ._moments import ClassMeans, labelled
from ._norms import set_up
from ._optim import Adam, Descent, Sgd, gradients
from ._passes import Passes
from ._prepared import ANY, fitting
from ._ranges import at_least_one, not_negative, positive
from ._replay import Replay, kept
from ._weights import Teacher, weights_and_biases, without_twins
from .roid import symmetric_cross_entropy

WARM_UP_IMAGES = 50_000
PUBLISHED_LR = {"sgd": 1e-2, "adam": 1e-3}


class Rmt(Method):
    """Self-training by a teacher, contrast with source prototypes and replay of labelled source images."""

    paper = "Döbler et al., CVPR 2023"
    bibtex = r"""@inproceedings{dobler2023rmt,
        title = {Robust Mean Teacher for Continual and Gradual Test-Time Adaptation},
        author = {D{\"o}bler, Mario and Marsden, Robert A. and Yang, Bin},
        booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
        year = {2023},
    }"""
    adapts = "all weights and biases, and a projector; a teacher follows them"
    passes = "1 forward and backward of images, views and source images; 1 forward"
    passes_per_image = (4, 3)
    kind = "all weights"
    published_batch_size = 64
    needs = ("source images", "source labels")
    needs_source = True
    uses_labels = True
    prepare_adapts = True
    prepare_uses_seed = False  # the projector starts from it, and the warm-up leaves the projector alone

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        optimizer: Literal["sgd", "adam"] = "sgd",
        lr: float | None = None,
        momentum: float = 0.9,
        teacher_momentum: float = 0.999,
        self_training_weight: float = 1.0,
        contrastive_weight: float = 1.0,
        source_weight: float = 1.0,
        temperature: float = 0.1,
        projection_dim: int = 128,
        warmup_steps: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        at_least_one(projection_dim=projection_dim)
        positive(temperature=temperature)
        not_negative(self_training_weight=self_training_weight, contrastive_weight=contrastive_weight)
        not_negative(source_weight=source_weight, warmup_steps=warmup_steps or 0)
        self.optimizer, self.momentum, self.seed = optimizer, momentum, seed
        self.lr = PUBLISHED_LR[optimizer] if lr is None else lr
        self.self_training_weight, self.contrastive_weight = self_training_weight, contrastive_weight
        self.source_weight, self.temperature, self.warmup_steps = source_weight, temperature, warmup_steps
        self._head = Head(model, method="rmt", num_classes=num_classes)
        self._student = weights_and_biases(model)
        self._teacher = Teacher(self._student, teacher_momentum)
        self._projector = first_projector(self._head.linear.weight, projection_dim, Draws(seed))
        set_up(model, list(self._student.values()))
        self._passes = Passes(model, self._head)
        self._prototypes: dict[str, Tensor] = {}
        self._replay: Replay | None = None
        self._warm_moments: dict[str, Tensor] = {}
        self._warmed = 0  # steps
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return {**self._student, **self._teacher.values, **self._projector}

    def remember(self) -> None:
        self._start = without_twins(self.adapted_state())

    def forget(self) -> None:
        tensors: list[Tensor] = [*self._student.values(), *self._projector.values()]
        self._descent: Descent
        if self.optimizer == "adam":
            self._descent = Adam(tensors, lr=self.lr)
        else:
            self._descent = Sgd(tensors, lr=self.lr, momentum=self.momentum, nesterov=self.momentum > 0)
        self._descent.load_moments(self._warm_moments)
        self._views = ColourAndAffine(Draws(self.seed), padding="edge", blur=True, noise=0.005)
        self._turn = self._warmed

    def augment(self, images: Tensor) -> Tensor:
        """The view of each image: colours, turn, shift, blur, flip and noise, one draw for the whole batch."""
        return self._views(images)

    def prepare(self, source_batches: Iterable[Tensor], labels: Iterable[Tensor] | None = None) -> None:
        """Prototypes of the source weights, then the warm-up, whose weights `reset` returns to."""
        if labels is None:
            raise UserError("rmt: prepare() got no source labels, which say whose prototype an image belongs to")
        means, images, truths = ClassMeans(self.num_classes, self._head.linear.in_features), [], []
        keep = self.source_weight > 0 or self.warmup_steps != 0
        for batch, truth in labelled(source_batches, labels, self.num_classes, method="rmt"):
            assert truth is not None
            with torch.no_grad():
                means.add(self._look(batch)[1], truth)
            if keep:
                images.append(kept(batch))
                truths.append(truth.clone())
        if not int(means.counts.sum()):
            raise UserError("rmt: prepare() got no source batches to take prototypes from")
        device = self._head.linear.weight.device
        self._prototypes = {"prototypes": means.means().float().to(device), "class_counts": means.counts.to(device)}
        if keep:
            source = Replay.of(images, truths)
            self._warm_up(source)
            self._replay = source if self.source_weight else None
        self.remember()
        self.forget()

    @torch.enable_grad()
    def _warm_up(self, source: Replay) -> None:
        one_pass = max(1, min(len(source), WARM_UP_IMAGES // self.batch_size))
        self._warmed = one_pass if self.warmup_steps is None else self.warmup_steps
        nothing = [None] * len(self._projector)
        for step in range(self._warmed):
            images, _ = source.turn(step)
            target = self._taught(images)
            loss = symmetric_cross_entropy(self._look(images)[0], target).mean()
            self._descent.set_lr(self.lr * (step + 1) / self._warmed)
            self._descent.step([*gradients(loss, list(self._student.values())), *nothing])
            self._teacher.follow()
        self._warm_moments = self._descent.moments()

    def prepared_state(self) -> dict[str, Tensor]:
        if not self._prototypes:
            return {}
        state = dict(self._prototypes)
        if self._replay is not None:
            state |= self._replay.tensors()
        if self.warmup_steps != 0:
            state |= {name: self.snapshot[name] for name in (*self._student, *self._teacher.values)}
            state |= {f"optimizer.{name}": value for name, value in self._warm_moments.items()}
            state["warmed"] = torch.tensor([self._warmed])
        return state

    def load_prepared_state(self, state: Mapping[str, Tensor]) -> None:
        found = fitting(state, self._prepared_shapes(), method="rmt", like=self._head.linear.weight)
        self._prototypes = {name: found[name] for name in ("prototypes", "class_counts")}
        if self.source_weight:
            self._replay = Replay(found["source_images"], found["source_labels"], found["source_sizes"])
        if self.warmup_steps != 0:
            self._warmed = int(found["warmed"])
            self._warm_moments = {
                name[len("optimizer.") :]: v for name, v in found.items() if name.startswith("optimizer.")
            }
            self.load_adapted_state({name: found[name] for name in (*self._student, *self._teacher.values)})
        self.remember()
        self.forget()

    def _prepared_shapes(self) -> dict[str, Sequence[int]]:
        width = self._head.linear.in_features
        shapes: dict[str, Sequence[int]] = {
            "prototypes": (self.num_classes, width),
            "class_counts": (self.num_classes,),
        }
        if self.source_weight:
            shapes |= {"source_images": (ANY, 3, ANY, ANY), "source_labels": (ANY,), "source_sizes": (ANY,)}
        if self.warmup_steps == 0:
            return shapes
        shapes |= {name: tensor.shape for name, tensor in {**self._student, **self._teacher.values}.items()}
        moments = ("exp_avg", "exp_avg_sq") if self.optimizer == "adam" else ("momentum_buffer",) * (self.momentum > 0)
        for i, tensor in enumerate(self._student.values()):
            shapes |= {f"optimizer.{moment}.{i}": tensor.shape for moment in moments}
            if self.optimizer == "adam":
                shapes[f"optimizer.step.{i}"] = ()
        return {**shapes, "warmed": (1,)}

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        if not self._prototypes:
            raise UserError("rmt: adapt() came before prepare(source_batches), which learns prototypes of the classes")
        view = self.augment(batch)
        if view.shape != batch.shape:
            raise UserError(f"rmt: augment() made {tuple(view.shape)} of {tuple(batch.shape)}, expected that shape")
        target = self._taught(batch)
        (logits, features), (view_logits, view_features) = self._look(batch), self._look(view)
        losses = symmetric_cross_entropy(logits, target) + symmetric_cross_entropy(view_logits, target)
        loss = self.self_training_weight * 0.5 * losses.mean()
        if self.contrastive_weight:
            loss = loss + self.contrastive_weight * self._contrast(features, view_features)
        if self._replay is not None:
            images, labels = self._replay.turn(self._turn)
            self._turn += 1
            loss = loss + self.source_weight * F.cross_entropy(self._look(images)[0], labels)
        self._descent.step(gradients(loss, self._descent.tensors))
        self._teacher.follow()
        return logits.detach() + target

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self._look(batch)[0] + self._taught(batch)}

    def _look(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and the features that enter the classifier."""
        logits = self._passes.everyone(images)
        return logits.float(), self._head.take(len(images)).float()

    @torch.no_grad()
    def _taught(self, images: Tensor) -> Tensor:
        with self._teacher.in_place():
            return self._look(images)[0]

    def _contrast(self, features: Tensor, view_features: Tensor) -> Tensor:
        prototypes, counts = self._prototypes["prototypes"], self._prototypes["class_counts"]
        with full_precision(features):
            likeness = F.normalize(features.detach(), dim=1) @ F.normalize(prototypes, dim=1).T
            nearest = prototypes[likeness.masked_fill(counts == 0, -torch.inf).argmax(1)]
            views = projected(torch.stack([nearest, features, view_features]), self._projector)
            return contrast(views, self.temperature)
