"""The authors' steps of SoTTA and NOTE, image by image, written out plainly: see `released.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.support.released import norms, step
from tests.support.released_statistics import FullRun, Pick, normalise, statistics, swap


def largest(bank: list[list[Tensor]]) -> list[int]:
    most = max(len(images) for images in bank)
    return [c for c, images in enumerate(bank) if len(images) == most]


def lowered(p: Tensor) -> Tensor:
    return -p * (p + 1e-6).log()


def sotta(model: Any, batches: list[Tensor], pick: Pick, **s: Any) -> FullRun:
    learns = norms(model, early=True)
    model.requires_grad_(False)
    for parameter in learns.values():
        parameter.requires_grad_(True)
    adam = torch.optim.Adam(learns.values(), lr=s["lr"])
    bank: list[list[Tensor]] = [[] for _ in range(model.num_classes)]
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = s["bn_momentum"]

    def keep(image: Tensor, logits: Tensor) -> None:
        confidence, label = logits.softmax(0).max(0)
        if confidence < s["confidence_threshold"]:
            return
        if sum(map(len, bank)) >= s["memory_size"]:
            classes = largest(bank)
            losing = int(label) if int(label) in classes else classes[pick(len(classes))]
            del bank[losing][pick(len(bank[losing]))]
        bank[int(label)].append(image)

    def update() -> None:
        images = torch.stack([image for members in bank for image in members])
        model.train()
        adam.zero_grad()
        lowered(model(images).softmax(1)).sum(1).mean().backward()
        grads = [p.grad.clone() for p in learns.values() if p.grad is not None]
        before = [p.detach().clone() for p in learns.values()]
        length = torch.stack([grad.norm() for grad in grads]).norm()
        for p, grad in zip(learns.values(), grads, strict=True):
            p.data += s["rho"] * grad / (length + 1e-12)
        adam.zero_grad()
        lowered(model(images).softmax(1)).sum(1).mean().backward()
        for p, value in zip(learns.values(), before, strict=True):
            p.data = value
        adam.step()

    return through_windows(model, batches, keep, update, bank, s), dict(learns), statistics(model)


def through_windows(
    model: Any,
    batches: list[Tensor],
    keep: Callable[[Tensor, Tensor], None],
    update: Callable[[], None],
    bank: list[list[Tensor]],
    s: dict[str, Any],
) -> list[Tensor]:
    answers: list[Tensor] = []
    for image in torch.cat(batches):
        model.eval()
        with torch.no_grad():
            answers.append(model(image[None])[0])
        keep(image, answers[-1])
        if len(answers) % s["update_frequency"] == 0 and any(bank):
            update()
    return list(torch.stack(answers).split([len(batch) for batch in batches]))


def shrink(values: Tensor, by: Tensor) -> Tensor:
    """Soft threshold."""
    return values.sign() * (values.abs() - by).clamp(min=0)


class InstanceAware(nn.BatchNorm2d):
    def start(self, k: float, momentum: float) -> None:
        self.k, self.momentum = k, momentum

    def forward(self, x: Tensor) -> Tensor:
        mean: Any = self.running_mean
        var: Any = self.running_var
        if self.training:
            old, old_var = mean, var
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=True)
            assert self.momentum is not None
            self.running_mean = (1 - self.momentum) * old + self.momentum * mean.detach()
            self.running_var = (1 - self.momentum) * old_var + self.momentum * var.detach()
        pixels = x.shape[2] * x.shape[3]
        if pixels > 1:
            own, own_var = x.mean((2, 3)), x.var((2, 3), unbiased=True)
            error = ((var + self.eps) / pixels).sqrt()
            error_var = (var + self.eps) * (2 / (pixels - 1)) ** 0.5
            mean = mean + shrink(own - mean, self.k * error)
            var = (var + shrink(own_var - var, self.k * error_var)).clamp(min=0)
        return normalise(self, x, mean, var)


def note(model: Any, batches: list[Tensor], pick: Pick, draw: Callable[[], float], **s: Any) -> FullRun:
    swap(model, InstanceAware, k=s["iabn_k"], momentum=s["bn_momentum"])
    learns = norms(model)
    model.requires_grad_(False)
    for parameter in learns.values():
        parameter.requires_grad_(True)
    adam = torch.optim.Adam(learns.values(), lr=s["lr"])
    bank: list[list[Tensor]] = [[] for _ in range(model.num_classes)]
    met = [0] * model.num_classes

    def keep(image: Tensor, logits: Tensor) -> None:
        label = int(logits.argmax())
        met[label] += 1
        if sum(map(len, bank)) >= s["memory_size"]:
            classes, losing = largest(bank), label
            if label not in classes:
                losing = classes[pick(len(classes))]
            elif draw() > len(bank[label]) / met[label]:
                return
            del bank[losing][pick(len(bank[losing]))]
        bank[label].append(image)

    def update() -> None:
        model.train()
        step(adam, lowered(model(torch.stack([image for members in bank for image in members])).softmax(1)).mean())

    return through_windows(model, batches, keep, update, bank, s), dict(learns), statistics(model)
