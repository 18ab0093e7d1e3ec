"""The authors' steps written out plainly: whole batches, whole graphs, torch's optimisers, deep copies of models.

Slow on purpose. `tests/methods/test_released_steps.py` compares our methods with them on models that no trace was
recorded on.
Each function runs a stream and returns the logits of every batch, and the adapted state by the names of the traces.
Here are the methods that change all weights; `released_norms.py` has those that change norm layers, and
`released_features.py` those that look at the classifier's input or at statistics.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Views = Callable[[Tensor, int], Tensor]
Run = tuple[list[Tensor], dict[str, Tensor]]

NORMS = (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
LATE = ("layer4", "blocks.9", "blocks.10", "blocks.11", "norm.")  # where SAR and DeYO learn nothing


def entropy(logits: Tensor) -> Tensor:
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


def norms(model: nn.Module, *, early: bool = False) -> dict[str, nn.Parameter]:
    """Weights and biases of all norms, or of those that SAR's rule leaves; it compares parts of names."""
    found: dict[str, nn.Parameter] = {}
    for name, module in model.named_modules():
        late = name == "norm" or any(word in name for word in LATE)
        if isinstance(module, NORMS) and not (early and late):
            found |= {f"{name}.{leaf}": parameter for leaf, parameter in module.named_parameters()}
    return found


def by_the_batch(model: Any) -> Any:
    """BatchNorm layers normalise by the statistics of the batch."""
    for module in model.eval().modules():
        if isinstance(module, nn.BatchNorm2d):
            module.train().track_running_stats = False
            module.running_mean = module.running_var = None
    return model


def weights_and_biases(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if name.split(".")[-1] in ("weight", "bias")}


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def symmetric(logits: Tensor, others: Tensor) -> Tensor:
    """Half the cross-entropy of one with the other, half of the other with the one."""
    forth = (others.softmax(1) * logits.log_softmax(1)).sum(1)
    back = (logits.softmax(1) * others.log_softmax(1)).sum(1)
    return -0.5 * (forth + back)


def of_teacher(teacher: nn.Module) -> dict[str, Tensor]:
    return {f"teacher.{name}": p for name, p in weights_and_biases(teacher).items()}


def cotta(model: Any, batches: list[Tensor], views: Views, mask: Callable[[Tensor], Tensor], **s: Any) -> Run:
    teacher, anchor = copy.deepcopy(by_the_batch(model)), copy.deepcopy(model)
    sgd = torch.optim.SGD(weights_and_biases(model).values(), lr=s["lr"], momentum=s["momentum"], nesterov=True)
    answers: list[Tensor] = []
    for batch in batches:
        logits = model(batch)
        with torch.no_grad():
            target = teacher(batch)
            if anchor(batch).softmax(1).amax(1).mean() < s["anchor_threshold"]:
                target = torch.stack([teacher(view) for view in views(batch, s["augmentations"])]).mean(0)
        step(sgd, symmetric(logits, target).mean())
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
                slow.copy_(s["teacher_momentum"] * slow + (1 - s["teacher_momentum"]) * fast)
            for name, tensor in weights_and_biases(model).items():
                tensor.copy_(torch.where(mask(tensor), anchor.get_parameter(name), tensor))
        answers.append(target)
    return answers, {**weights_and_biases(model), **of_teacher(teacher)}


def memo(model: Any, batches: list[Tensor], views: Views, **s: Any) -> Run:
    source = copy.deepcopy(model.state_dict())
    if s["optimizer"] == "sgd":
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=s["lr"], weight_decay=s["weight_decay"])
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=s["lr"], weight_decay=s["weight_decay"])
    fresh = copy.deepcopy(optimizer.state_dict())
    answers: list[Tensor] = []
    for batch in batches:
        for image in batch.split(1):
            model.load_state_dict(source)
            if s["reset_optimizer"]:
                optimizer.load_state_dict(copy.deepcopy(fresh))
            log_p = model(views(image, s["augmentations"])[:, 0]).log_softmax(1)
            mean = log_p.logsumexp(0) - math.log(len(log_p))
            step(optimizer, -(mean.exp() * mean).sum())
            with torch.no_grad():
                answers.append(model(image))
    return list(torch.cat(answers).split([len(batch) for batch in batches])), dict(model.named_parameters())


def adacontrast(model: Any, batches: list[Tensor], views: Views, queue: Tensor, queued: Tensor, **s: Any) -> Run:
    teacher, head = copy.deepcopy(model), set(model.head.parameters())
    learns = [p for p in weights_and_biases(model).values() if p not in head]
    sgd = torch.optim.SGD(learns, lr=s["lr"], momentum=s["momentum"], nesterov=True, weight_decay=s["weight_decay"])
    bank: tuple[Tensor, Tensor] | None = None
    answers: list[Tensor] = []
    pointer, seen, queue, queued = 0, 0, queue.clone(), queued.clone()

    def look(network: Any, images: Tensor) -> tuple[Tensor, Tensor]:
        features = network.forward_head(network.forward_features(images), pre_logits=True)
        return features, network.head(features)

    for batch in batches:
        weak, query, key = views(batch, 3)
        with torch.no_grad():
            features, logits = look(model, weak)
            labels = logits.argmax(1)
            if seen >= s["warmup_samples"] and bank is not None:
                likeness = F.normalize(features, dim=1) @ bank[0].T
                labels = bank[1][likeness.topk(s["neighbours"], dim=1).indices].mean(1).argmax(1)
            for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
                slow.copy_(s["teacher_momentum"] * slow + (1 - s["teacher_momentum"]) * fast)
            keys = F.normalize(look(teacher, key)[0], dim=1)
        places = (seen + torch.arange(len(batch))) % len(queue)
        queued[places] = labels
        features, logits = look(model, query)
        unit = F.normalize(features, dim=1)
        negatives = (unit @ queue.T).masked_fill(labels[:, None] == queued, -torch.inf)
        contrast = torch.cat([(unit * keys).sum(1, keepdim=True), negatives], dim=1) / s["temperature"]
        mean = logits.softmax(1).mean(0)
        loss = F.cross_entropy(logits, labels) + F.cross_entropy(contrast, torch.zeros_like(labels))
        step(sgd, loss + (mean * (mean + 1e-8).log()).sum())
        queue[places] = keys
        with torch.no_grad():
            features, logits = look(teacher, weak)
            new = F.normalize(features, dim=1), logits.softmax(1)
            if bank is None or len(bank[0]) < len(queue):
                bank = new if bank is None else (torch.cat([bank[0], new[0]]), torch.cat([bank[1], new[1]]))
            else:
                old = (pointer + torch.arange(len(batch))) % len(bank[0])
                bank[0][old], bank[1][old] = new
            pointer = (pointer + len(batch)) % len(bank[0])  # of the bank as it is now, so it lags while that grows
            answers.append(model(batch))
        seen += len(batch)
    state = {name: p for name, p in weights_and_biases(model).items() if p not in head}
    return answers, {**state, **of_teacher(teacher), "queue_features": queue, "queue_labels": queued}
