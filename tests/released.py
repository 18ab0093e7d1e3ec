"""The authors' steps written out plainly: whole batches, whole graphs, torch's optimisers, deep copies of models.

Slow on purpose. `test_released_steps.py` compares our methods with them on models that no trace was recorded on.
Each function runs a stream and returns the logits of every batch; weights of `model` change as the method has it.
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


def entropy(logits: Tensor) -> Tensor:
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


def norms(model: nn.Module, skip: tuple[str, ...] = ()) -> list[nn.Parameter]:
    found = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.LayerNorm)]
    return [p for name, m in found if not any(name.startswith(word) for word in skip) for p in (m.weight, m.bias)]


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


def cotta(model: Any, batches: list[Tensor], views: Views, mask: Callable[[Tensor], Tensor], **s: Any) -> list[Tensor]:
    teacher, anchor = copy.deepcopy(model), copy.deepcopy(model)
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
    return answers


def memo(model: Any, batches: list[Tensor], views: Views, **s: Any) -> list[Tensor]:
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
    return list(torch.cat(answers).split([len(batch) for batch in batches]))


def adacontrast(
    model: Any, batches: list[Tensor], views: Views, queue: Tensor, queued: Tensor, **s: Any
) -> list[Tensor]:
    """Queue and bank are taken to be large enough for the stream: what overwriting does is in the traces."""
    teacher, head = copy.deepcopy(model), set(model.head.parameters())
    learns = [p for p in weights_and_biases(model).values() if p not in head]
    sgd = torch.optim.SGD(learns, lr=s["lr"], momentum=s["momentum"], nesterov=True, weight_decay=s["weight_decay"])
    bank: tuple[Tensor, Tensor] | None = None
    answers: list[Tensor] = []
    seen, queue, queued = 0, queue.clone(), queued.clone()

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
        start = seen % len(queue)
        queued[start : start + len(batch)] = labels
        features, logits = look(model, query)
        unit = F.normalize(features, dim=1)
        negatives = (unit @ queue.T).masked_fill(labels[:, None] == queued, -torch.inf)
        contrast = torch.cat([(unit * keys).sum(1, keepdim=True), negatives], dim=1) / s["temperature"]
        mean = logits.softmax(1).mean(0)
        loss = F.cross_entropy(logits, labels) + F.cross_entropy(contrast, torch.zeros_like(labels))
        step(sgd, loss + (mean * (mean + 1e-8).log()).sum())
        queue[start : start + len(batch)] = keys
        with torch.no_grad():
            features, logits = look(teacher, weak)
            new = F.normalize(features, dim=1), logits.softmax(1)
            bank = new if bank is None else (torch.cat([bank[0], new[0]]), torch.cat([bank[1], new[1]]))
            answers.append(model(batch))
        seen += len(batch)
    return answers


def rdumb(model: Any, batches: list[Tensor], **s: Any) -> list[Tensor]:
    source = copy.deepcopy(model.state_dict())
    mean: Tensor | None = None
    answers: list[Tensor] = []
    sgd: Any = None
    for number, batch in enumerate(batches):
        if number % s["reset_interval"] == 0:
            model.load_state_dict(source)
            mean, sgd = None, torch.optim.SGD(norms(model), lr=s["lr"], momentum=s["momentum"])
        logits = model(batch)
        values, p = entropy(logits), logits.softmax(1).detach()
        kept = values < s["entropy_threshold"]
        if mean is not None:
            kept = kept & (F.cosine_similarity(mean[None], p, dim=1).abs() < s["redundancy_threshold"])
        if kept.any():
            now = p[kept].mean(0)
            mean = now if mean is None else 0.9 * mean + 0.1 * now
            weights = (s["entropy_threshold"] - values.detach()).exp()
            step(sgd, (weights * values)[kept].mean())
        answers.append(logits.detach())
    return answers


def deyo(model: Any, batches: list[Tensor], **s: Any) -> list[Tensor]:
    """Patches in reverse order; twelve blocks, of which the last three and the final norm stay."""
    learns = norms(model, ("blocks.9", "blocks.10", "blocks.11", "norm"))
    sgd = torch.optim.SGD(learns, lr=s["lr"], momentum=s["momentum"])
    answers: list[Tensor] = []
    for batch in batches:
        logits = model(batch)
        values = entropy(logits)
        side = batch.shape[-1] // s["patch_len"]
        columns = F.unfold(batch, side, stride=side).flip(2)
        with torch.no_grad():
            other = model(F.fold(columns, batch.shape[-2:], side, stride=side)).softmax(1)
        p, label = logits.detach().softmax(1).max(1)
        drop = p - other.gather(1, label[:, None])[:, 0]
        kept = (values < s["entropy_threshold"]) & (drop > s["plpd_threshold"])
        if kept.any():
            weights = (s["entropy_margin"] - values.detach()).exp() + drop.exp()
            step(sgd, (weights * values)[kept].mean())
        answers.append(logits.detach())
    return answers


def roid(
    model: Any, batches: list[Tensor], augment: Callable[[Tensor], Tensor], batch_size: int, **s: Any
) -> list[Tensor]:
    """With `alpha`, CMF: the same losses, and weights drawn towards filtered ones."""
    source = [p.detach().clone() for p in norms(model)]
    hidden, variance = [p.clone() for p in source], 0.0
    sgd = torch.optim.SGD(norms(model), lr=s["lr"], momentum=s["momentum"], nesterov=True)
    mean: Any = None
    answers: list[Tensor] = []
    for batch in batches:
        logits = model(batch)
        p = logits.detach().softmax(1)
        mean = torch.full((p.shape[1],), 1 / p.shape[1]) if mean is None else mean
        novel = 1 - F.cosine_similarity(mean[None], p, dim=1)
        novel = (novel - novel.min()) / (novel.max() - novel.min())
        sure = -entropy(logits.detach())
        sure = (sure - sure.min()) / (sure.max() - sure.min())
        weights = (novel * sure / s["temperature"]).exp() * (novel >= novel.mean())
        mean = s["momentum_probs"] * mean + (1 - s["momentum_probs"]) * p.mean(0)
        q = logits.softmax(1).clamp(max=0.99)
        losses = -(q * (q / (1 - q) + 1e-5).log()).sum(1) + symmetric(model(augment(batch)), logits)
        step(sgd, (weights * losses).sum() / batch_size)
        with torch.no_grad():
            if "alpha" in s:
                hidden = [s["alpha"] * h + (1 - s["alpha"]) * w for h, w in zip(hidden, source, strict=True)]
                variance = s["alpha"] ** 2 * variance + s["q"]
                gain = max((1 - s["q"]) / (variance + 1 - s["q"]), 0.89)
                gain = 1.0 if gain >= 0.9999 else gain
                variance *= gain
                hidden = [gain * h + (1 - gain) * w for h, w in zip(hidden, norms(model), strict=True)]
            keep = s.get("gamma", s.get("momentum_src"))
            for w, anchor in zip(norms(model), hidden if "alpha" in s else source, strict=True):
                w.copy_(keep * w + (1 - keep) * anchor)
        prior = p.mean(0)
        smooth = max(1 / len(p), 1 / p.shape[1]) / prior.max()
        answers.append(logits.detach() * (prior + smooth) / (1 + smooth * p.shape[1]))
    return answers
