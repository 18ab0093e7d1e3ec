"""The authors' steps of methods with BatchNorm statistics of their own, written out plainly: see `released.py`.

RoTTA, SoTTA and NOTE count images, TRIBE batches. The third value that each returns is its statistics by name.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.released import entropy, norms, step

FullRun = tuple[list[Tensor], dict[str, Tensor], dict[str, Tensor]]
Pick = Callable[[int], int]


def swap(model: Any, make: Any, **s: Any) -> Any:
    """Another layer in place of each BatchNorm layer."""
    for name, old in list(model.named_modules()):
        if isinstance(old, nn.BatchNorm2d):
            new = make(old.num_features, eps=old.eps)
            new.load_state_dict(old.state_dict())
            new.start(**s)
            model.set_submodule(name, new)
    return model


def normalise(norm: Any, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """Mean and variance of the layer [C] or of each image [B, C]."""
    unit = (x - mean[..., None, None]) / (var[..., None, None] + norm.eps).sqrt()
    return unit * norm.weight[:, None, None] + norm.bias[:, None, None]


def statistics(model: nn.Module, prefix: str = "", leaves: tuple[str, ...] = ("running_mean", "running_var")) -> Any:
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)]
    return {f"{prefix}{name}.{leaf}": getattr(module, leaf).clone() for name, module in found for leaf in leaves}


class Robust(nn.BatchNorm2d):
    def start(self, share: float) -> None:
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        mean: Any = self.running_mean
        var: Any = self.running_var
        if self.training:
            mean = (1 - self.share) * mean + self.share * x.mean((0, 2, 3))
            var = (1 - self.share) * var + self.share * x.var((0, 2, 3), unbiased=False)
            self.running_mean, self.running_var = mean.detach(), var.detach()
        return normalise(self, x, mean, var)


class Slot:
    def __init__(self, image: Tensor, uncertainty: float = 0.0) -> None:
        self.image, self.uncertainty, self.age = image, uncertainty, 0


def rotta(model: Any, batches: list[Tensor], augment: Callable[[Tensor], Tensor], **s: Any) -> FullRun:
    student = swap(model, Robust, share=s["bn_momentum"])
    teacher, learns = copy.deepcopy(student), norms(student)
    adam = torch.optim.Adam(learns.values(), lr=s["lr"])
    classes, size, counter = model.num_classes, s["memory_size"], 0
    bank: list[list[Slot]] = [[] for _ in range(classes)]

    def score(slot: Slot) -> float:
        timely = s["age_weight"] / (1 + math.exp(-slot.age / size))
        return float(timely + s["uncertainty_weight"] * slot.uncertainty / math.log(classes))

    def insert(slot: Slot, label: int) -> None:
        counts = [len(slots) for slots in bank]
        if counts[label] < size / classes and sum(counts) < size:
            bank[label].append(slot)
        else:
            own = counts[label] >= size / classes
            candidates = [label] if own else [c for c in range(classes) if counts[c] == max(counts)]
            victim, worst = None, -math.inf
            for c in candidates:
                for old in bank[c]:
                    if score(old) >= worst:
                        victim, worst = (c, old), score(old)
            if victim is None or worst > score(slot):
                if victim is not None:
                    bank[victim[0]].remove(victim[1])
                bank[label].append(slot)
        for slots in bank:
            for old in slots:
                old.age += 1

    def update() -> None:
        student.train()
        teacher.train()
        slots = [slot for members in bank for slot in members]
        images, ages = torch.stack([slot.image for slot in slots]), torch.tensor([slot.age / size for slot in slots])
        with torch.no_grad():
            target = teacher(images).softmax(1)
        weights = (-ages).exp() / (1 + (-ages).exp())
        step(adam, (weights * -(target * student(augment(images)).log_softmax(1)).sum(1)).mean())
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.copy_(s["teacher_momentum"] * slow + (1 - s["teacher_momentum"]) * fast)

    answers: list[Tensor] = []
    for batch in batches:
        student.eval()
        teacher.eval()
        with torch.no_grad():
            answers.append(teacher(batch))
        p = answers[-1].softmax(1)
        unsure = -(p * (p + 1e-6).log()).sum(1)
        for image, label, value in zip(batch, p.argmax(1).tolist(), unsure.tolist(), strict=True):
            insert(Slot(image, value), label)
            counter += 1
            if counter % s["update_frequency"] == 0:
                update()
    slow_norms = {f"teacher.{name}": p for name, p in norms(teacher).items()}
    return answers, {**learns, **slow_norms}, {**statistics(student), **statistics(teacher, "teacher.")}


class Balanced(nn.BatchNorm2d):
    def start(self, classes: int, rate: float, share: float) -> None:
        self.rate, self.share, self.labels = rate, share, torch.empty(0)
        mean: Any = self.running_mean
        var: Any = self.running_var
        self.class_mean, self.class_var = [mean.clone()] * classes, [var.clone()] * classes

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.follow(x)
        means, variances = torch.stack(list(self.class_mean)), torch.stack(list(self.class_var))
        mean, var = means.mean(0), variances.mean(0) + means.var(0, unbiased=True)
        self.class_mean = [value.detach() for value in self.class_mean]
        self.class_var = [value.detach() for value in self.class_var]
        self.running_mean, self.running_var = mean.detach(), var.detach()
        return normalise(self, x, mean, var)

    def follow(self, x: Tensor) -> None:
        moves, squares, kept = {}, {}, {}
        for k in self.labels.unique().tolist():
            mine, n = x[self.labels == k], int((self.labels == k).sum())
            m = 1 / n if n > 1 / self.rate else self.rate
            d = mine - self.class_mean[k][:, None, None]
            moves[k], kept[k] = m * d.mean((2, 3)).sum(0), m * n
            squares[k] = m * d.square().mean((2, 3)).sum(0)
        own, present = 1 - self.share, list(moves)
        mean, var = list(self.class_mean), list(self.class_var)
        for k in present:
            mean[k] = mean[k] + own * moves[k]
            var[k] = var[k] + own * (squares[k] - kept[k] * var[k] - moves[k] ** 2)
        all_mean = torch.stack([moves[k] for k in present]).mean(0)
        all_var = torch.stack([squares[k] - moves[k] ** 2 for k in present]).mean(0)
        share_kept = sum(kept.values()) / len(kept)
        self.class_mean = [value + self.share * all_mean for value in mean]
        self.class_var = [value + self.share * (all_var - share_kept * value) for value in var]


def tribe(model: Any, batches: list[Tensor], augment: Callable[[Tensor], Tensor], **s: Any) -> FullRun:
    student = swap(model, Balanced, classes=model.num_classes, rate=s["bn_rate"], share=s["bn_share"])
    auxiliary, anchor, learns = copy.deepcopy(student), copy.deepcopy(student), norms(student)
    for name, parameter in norms(student).items():
        layer, _, leaf = name.rpartition(".")
        setattr(auxiliary.get_submodule(layer), leaf, parameter)
    adam = torch.optim.Adam(learns.values(), lr=s["lr"])
    answers: list[Tensor] = []
    for batch in batches:
        auxiliary.eval()
        with torch.no_grad():
            answers.append(auxiliary(batch))
        for net in (student, auxiliary, anchor):
            net.train()
            for module in net.modules():
                if isinstance(module, Balanced):
                    module.labels = answers[-1].argmax(1)
        a, z = auxiliary(batch), student(augment(batch))
        with torch.no_grad():
            r = anchor(batch)
        kept = entropy(a) < s["entropy_threshold"]
        loss = F.cross_entropy(z[kept], a[kept].argmax(1)) + s["anchor_weight"] * (a - r)[kept].square().mean()
        step(adam, loss)
    named = {"student.": student, "auxiliary.": auxiliary, "anchor.": anchor}
    found: dict[str, Tensor] = {}
    for prefix, net in named.items():
        for name, module in net.named_modules():
            if isinstance(module, Balanced):
                found[f"{prefix}{name}.class_mean"] = torch.stack(module.class_mean)
                found[f"{prefix}{name}.class_var"] = torch.stack(module.class_var)
    return answers, dict(learns), found
