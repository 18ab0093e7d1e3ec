"""The authors' steps of COME, SHOT-IM and RMT, written out plainly: see `released.py`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support import released_norms
from tests.support.released import (
    Run,
    by_the_batch,
    entropy,
    norms,
    of_teacher,
    step,
    symmetric,
    weights_and_biases,
)
from tests.support.released_features import features_of


def opinion(logits: Tensor, evidence: int) -> Tensor:
    """COME's entropy: the length of the logits is a constant, and not knowing is one more class."""
    length = logits.norm(dim=1, keepdim=True)
    e = (logits / length * length.detach()).exp()
    total = e.sum(1, keepdim=True) + evidence
    q = torch.cat([e / total, evidence / total], dim=1) + 1e-7
    return -(q * q.log()).sum(1)


def tent_come(model: Any, batches: list[Tensor], *, opinion_classes: int, **s: Any) -> Run:
    return released_norms.tent(model, batches, measure=partial(opinion, evidence=opinion_classes), **s)


def eata_come(model: Any, batches: list[Tensor], *, opinion_classes: int, **s: Any) -> Run:
    return released_norms.eata(model, batches, measure=partial(opinion, evidence=opinion_classes), **s)


def sar_come(model: Any, batches: list[Tensor], *, opinion_classes: int, **s: Any) -> Run:
    return released_norms.sar(model, batches, measure=partial(opinion, evidence=opinion_classes), **s)


def descent(tensors: list[Tensor], s: dict[str, Any], *, nesterov: bool) -> torch.optim.Optimizer:
    if s["optimizer"] == "adam":
        return torch.optim.Adam(tensors, lr=s["lr"])
    return torch.optim.SGD(tensors, lr=s["lr"], momentum=s["momentum"], nesterov=nesterov)


def shot_im(model: Any, batches: list[Tensor], **s: Any) -> Run:
    by_the_batch(model)
    head, loose = set(model.get_classifier().parameters()), set(model.parameters(recurse=False))
    learns = norms(model)
    if s["parameters"] != "norms":
        left_out = head | loose if s["parameters"] == "extractor-modules" else head
        learns = {name: p for name, p in model.named_parameters() if p not in left_out}
    optimizer = descent(list(learns.values()), s, nesterov=s.get("nesterov", False))
    answers: list[Tensor] = []
    for batch in batches:
        logits = model(batch)
        mean = logits.softmax(1).mean(0)
        loss = entropy(logits).mean() + (mean * mean.log()).sum()
        sure = logits.softmax(1).amax(1) > s.get("pseudo_threshold", 0.9)
        if s["pseudo_weight"] and sure.any():
            loss = loss + s["pseudo_weight"] * F.cross_entropy(logits[sure], logits[sure].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        if s["max_grad_norm"]:
            nn.utils.clip_grad_norm_(learns.values(), s["max_grad_norm"])
        optimizer.step()
        answers.append(logits.detach())
    return answers, dict(learns)


def attract(rows: Tensor, images: int, temperature: float) -> Tensor:
    """Supervised contrast: row i, i + images and i + 2 images are the views of image i."""
    rows, losses = F.normalize(rows, dim=1), []
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i]
        likeness = rows[others] @ rows[i] / temperature
        log_p = likeness - likeness.logsumexp(0)
        losses.append(-torch.stack([log_p[k] for k, j in enumerate(others) if j % images == i % images]).mean())
    return torch.stack(losses).mean()


def rmt(
    model: Any,
    batches: list[Tensor],
    source: list[Tensor],
    labels: list[Tensor],
    start: dict[str, Tensor],
    augment: Callable[[Tensor], Tensor],
    **s: Any,
) -> Run:
    """A class without source images has no prototype; as released its prototype is NaN, and so is the first loss."""
    by_the_batch(model)
    head = model.get_classifier()
    with torch.no_grad():
        features, truth = torch.cat([features_of(model, batch) for batch in source]), torch.cat(labels)
    prototypes = torch.stack([features[truth == c].mean(0) for c in truth.unique()])
    teacher, projector = copy.deepcopy(model), {name: value.clone().requires_grad_() for name, value in start.items()}
    optimizer = descent([*weights_and_biases(model).values(), *projector.values()], s, nesterov=True)
    turns = 0

    def learn(loss: Tensor) -> None:
        step(optimizer, loss)
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
                slow.copy_(s["teacher_momentum"] * slow + (1 - s["teacher_momentum"]) * fast)

    def project(x: Tensor) -> Tensor:
        hidden = F.linear(x, projector["projector.0.weight"], projector["projector.0.bias"]).relu()
        return F.linear(hidden, projector["projector.2.weight"], projector["projector.2.bias"])

    for i in range(s["warmup_steps"]):
        optimizer.param_groups[0]["lr"] = s["lr"] * (i + 1) / s["warmup_steps"]
        batch = source[turns % len(source)]
        turns += 1
        learn(symmetric(model(batch), teacher(batch).detach()).mean())
    optimizer.param_groups[0]["lr"] = s["lr"]
    answers: list[Tensor] = []
    for batch in batches:
        f, f_view = features_of(model, batch), features_of(model, augment(batch))
        z, z_view, t = head(f), head(f_view), teacher(batch).detach()
        nearest = F.cosine_similarity(f.detach()[:, None], prototypes[None], dim=2).argmax(1)
        rows = project(torch.cat([prototypes[nearest], f, f_view]))
        loss = s["self_training_weight"] * (symmetric(z, t) / 2 + symmetric(z_view, t) / 2).mean()
        loss = loss + s["contrastive_weight"] * attract(rows, len(batch), s["temperature"])
        if s["source_weight"]:
            which = turns % len(source)
            turns += 1
            loss = loss + s["source_weight"] * F.cross_entropy(model(source[which]), labels[which])
        learn(loss)
        answers.append((z + t).detach())
    return answers, {**weights_and_biases(model), **of_teacher(teacher), **projector}
