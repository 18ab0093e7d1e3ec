"""The authors' steps of methods that change norm layers, written out plainly: see `released.py`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.transforms.functional import resize

from tests.support.released import Run, by_the_batch, entropy, norms, step, symmetric

Measure = Callable[[Tensor], Tensor]


def rdumb(model: Any, batches: list[Tensor], **s: Any) -> Run:
    source = copy.deepcopy(by_the_batch(model).state_dict())
    mean: Tensor | None = None
    answers: list[Tensor] = []
    sgd: Any = None
    for number, batch in enumerate(batches):
        if number % s["reset_interval"] == 0:
            model.load_state_dict(source)
            mean, sgd = None, torch.optim.SGD(norms(model).values(), lr=s["lr"], momentum=s["momentum"])
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
    return answers, dict(norms(model))


def deyo(model: Any, batches: list[Tensor], **s: Any) -> Run:
    """Patches in reverse order; the second look is at samples below the threshold, all at once."""
    learns = norms(by_the_batch(model), early=True)
    sgd = torch.optim.SGD(learns.values(), lr=s["lr"], momentum=s["momentum"])
    answers: list[Tensor] = []
    for batch in batches:
        logits = model(batch)
        answers.append(logits.detach())
        sure = (entropy(logits.detach()) < s["entropy_threshold"]).nonzero()[:, 0]
        if not len(sure):
            continue
        values = entropy(logits[sure])
        with torch.no_grad():
            other = model(destroyed(batch[sure].clone(), **s)).softmax(1)
        p, label = logits[sure].detach().softmax(1).max(1)
        drop = p - other.gather(1, label[:, None])[:, 0]
        kept = drop > s["plpd_threshold"]
        if kept.any():
            weights = 1 / (values.detach() - s["entropy_margin"]).exp() + 1 / (-drop).exp()
            step(sgd, (weights * values)[kept].mean())
    return answers, dict(learns)


def destroyed(images: Tensor, **s: Any) -> Tensor:
    if s["augmentation"] == "occlusion":
        row, column, size = s["occlusion_row"], s["occlusion_column"], s["occlusion_size"]
        mean = images.flatten(2).mean(2)[..., None, None]
        images[:, :, row : row + size, column : column + size] = mean.expand(-1, -1, size, size)
        return images
    before = images.shape[-1]
    side = before // s["patch_len"]
    images = resize(images, [side * s["patch_len"]] * 2)
    columns = F.unfold(images, side, stride=side).flip(2)
    return resize(F.fold(columns, images.shape[-2:], side, stride=side), [before] * 2)


def tent(model: Any, batches: list[Tensor], *, lr: float, measure: Measure = entropy) -> Run:
    learns = norms(by_the_batch(model))
    sgd = torch.optim.SGD(learns.values(), lr=lr, momentum=0.9)
    answers: list[Tensor] = []
    for batch in batches:
        logits = model(batch)
        step(sgd, measure(logits).mean())
        answers.append(logits.detach())
    return answers, dict(learns)


def eata(model: Any, batches: list[Tensor], source: list[Tensor], measure: Measure = entropy, **s: Any) -> Run:
    learns, mean = norms(by_the_batch(model)), None
    anchors = {name: p.detach().clone() for name, p in learns.items()}
    fisher = {name: torch.zeros_like(p) for name, p in anchors.items()}
    for batch in source:
        logits = model(batch)
        model.zero_grad()
        F.cross_entropy(logits, logits.argmax(1)).backward()
        fisher = {name: fisher[name] + p.grad**2 / len(source) for name, p in learns.items() if p.grad is not None}
    sgd = torch.optim.SGD(learns.values(), lr=s["lr"], momentum=0.9)
    answers: list[Tensor] = []
    for batch in batches:
        logits = model(batch)
        values, p = measure(logits), logits.softmax(1).detach()
        kept = values < s["entropy_threshold"]
        if mean is not None:
            kept = kept & (F.cosine_similarity(mean[None], p, dim=1).abs() < s["redundancy_threshold"])
        if kept.any():
            mean = p[kept].mean(0) if mean is None else 0.9 * mean + 0.1 * p[kept].mean(0)
            loss = (values * (s["entropy_threshold"] - values.detach()).exp())[kept].mean()
            for name, weight in learns.items():
                loss = loss + s["fisher_weight"] * (fisher[name] * (weight - anchors[name]) ** 2).sum()
            step(sgd, loss)
        answers.append(logits.detach())
    return answers, dict(learns)


def sar(model: Any, batches: list[Tensor], *, lr: float, entropy_threshold: float, measure: Measure = entropy) -> Run:
    """A recovery returns to the source weights; the average that called for it and the momentum stay."""
    learns, average = norms(by_the_batch(model), early=True), None
    source = {name: p.detach().clone() for name, p in learns.items()}
    sgd = torch.optim.SGD(learns.values(), lr=lr, momentum=0.9)
    answers: list[Tensor] = []
    for batch in batches:
        sgd.zero_grad()
        logits = model(batch)
        kept = measure(logits) < entropy_threshold
        measure(logits)[kept].mean().backward()
        grads = [p.grad.clone() for p in learns.values() if p.grad is not None]
        length = torch.stack([grad.norm() for grad in grads]).norm()
        before = [p.detach().clone() for p in learns.values()]
        for p, grad in zip(learns.values(), grads, strict=True):
            p.data += 0.05 * grad / (length + 1e-12)
        sgd.zero_grad()
        again = measure(model(batch)[kept])
        loss = again[again < entropy_threshold].mean()
        loss.backward()
        for p, value in zip(learns.values(), before, strict=True):
            p.data = value
        sgd.step()
        if not loss.isnan():
            average = loss.item() if average is None else 0.9 * average + 0.1 * loss.item()
        if average is not None and average < 0.2:
            for name, p in learns.items():
                p.data = source[name].clone()
        answers.append(logits.detach())
    return answers, dict(learns)


def roid(model: Any, batches: list[Tensor], augment: Callable[[Tensor], Tensor], batch_size: int, **s: Any) -> Run:
    """With `alpha`, CMF: the same losses, and weights drawn towards filtered ones. Single images go into a window."""
    learner = RoidLearner(by_the_batch(model), augment, batch_size, s)
    window, place, answers = torch.empty(0), 0, []
    for batch in batches:
        if len(batch) > 1:
            answers.append(learner.learn(batch))
            continue
        if not len(window):
            window = batch.clone()
        elif len(window) < s["window_length"]:
            window = torch.cat([window, batch])
        else:
            window[place] = batch[0]
        if place == s["window_length"] - 1:
            answers.append(learner.learn(window)[place][None])
        else:
            with torch.no_grad():
                answers.append(model(batch))
        place = (place + 1) % s["window_length"]
    return answers, dict(norms(model))


class RoidLearner:
    def __init__(self, model: Any, augment: Callable[[Tensor], Tensor], batch_size: int, s: dict[str, Any]) -> None:
        self.model, self.augment, self.batch_size, self.s = model, augment, batch_size, s
        self.learns = list(norms(model).values())
        self.source = [p.detach().clone() for p in self.learns]
        self.updates, self.variance = 0, 0.0
        self.start()

    def start(self) -> None:
        """What a periodic reset does, too: the variance is not part of it."""
        for p, value in zip(self.learns, self.source, strict=True):
            p.data = value.clone()
        self.hidden = [p.clone() for p in self.source]
        self.sgd = torch.optim.SGD(self.learns, lr=self.s["lr"], momentum=self.s["momentum"], nesterov=True)
        self.mean: Any = None

    def learn(self, batch: Tensor) -> Tensor:
        logits = self.model(batch)
        p = logits.detach().softmax(1)
        weights = self.weights(p, entropy(logits.detach()))
        q = logits.softmax(1).clamp(max=0.99)
        losses = -(q * (q / (1 - q) + 1e-5).log()).sum(1)
        kept = weights > 0
        loss = (weights * losses)[kept].sum() / self.batch_size
        if self.s.get("use_consistency", True):
            views = self.model(self.augment(batch[kept]))
            loss = loss + (weights[kept] * symmetric(views, logits[kept])).sum() / self.batch_size
        step(self.sgd, loss)
        with torch.no_grad():
            self.pull()
        self.updates += 1
        if self.s.get("reset_interval") and self.updates % self.s["reset_interval"] == 0:
            self.start()
        if not self.s.get("use_prior_correction", True):
            return logits.detach()
        prior = p.mean(0)
        smooth = max(1 / len(p), 1 / p.shape[1]) / prior.max()
        return logits.detach() * ((prior + smooth) / (1 + smooth * p.shape[1]))

    def weights(self, p: Tensor, values: Tensor) -> Tensor:
        if not self.s.get("use_weighting", True):
            return torch.ones(len(p))
        self.mean = torch.full((p.shape[1],), 1 / p.shape[1]) if self.mean is None else self.mean
        novel = 1 - F.cosine_similarity(self.mean[None], p, dim=1)
        novel = (novel - novel.min()) / (novel.max() - novel.min())
        sure = (-values - (-values).min()) / ((-values).max() - (-values).min())
        self.mean = self.s["momentum_probs"] * self.mean + (1 - self.s["momentum_probs"]) * p.mean(0)
        return (novel * sure / self.s["temperature"]).exp() * (novel >= novel.mean())

    def pull(self) -> None:
        s, keep, towards = self.s, self.s.get("momentum_src"), self.source
        if "alpha" in s:
            predicted = [s["alpha"] * h + (1 - s["alpha"]) * w for h, w in zip(self.hidden, self.source, strict=True)]
            variance = s["alpha"] ** 2 * self.variance + s["q"]
            gain = max((1 - s["q"]) / (variance + 1 - s["q"]), 0.89)
            gain = 1.0 if gain >= 0.9999 else gain
            self.variance = gain * variance
            self.hidden = [gain * h + (1 - gain) * w for h, w in zip(predicted, self.learns, strict=True)]
            keep, towards = s["gamma"], self.hidden
        for w, anchor in zip(self.learns, towards, strict=True):
            w.copy_(keep * w + (1 - keep) * anchor)
