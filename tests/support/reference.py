"""The methods written literally and slowly, from the description of the released code.

Whole-batch second passes, masks instead of selections, all pairs of cosines, every optimiser by hand: nothing here is
shared with `methods/`, so agreement means that both follow the description and that no shortcut changed a result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MOMENTUM, RHO = 0.9, 0.05
FROZEN = ("blocks.9.", "blocks.10.", "blocks.11.", "blocks.21.", "blocks.22.", "blocks.23.")


def all_norms(model: nn.Module) -> dict[str, Tensor]:
    return {n: p for n, p in model.named_parameters() if "norm" in n}


def early_norms(model: nn.Module) -> dict[str, Tensor]:
    return {n: p for n, p in all_norms(model).items() if not n.startswith((*FROZEN, "norm."))}


def entropy(logits: Tensor) -> Tensor:
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


def lifted_forward(
    vit: nn.Module, images: Tensor, tokens: Tensor, predictors: dict[str, Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """A plain ViT's forward with shift tokens in front of the class token, written out."""
    n, shifts = tokens.shape[1], []
    x = vit.patch_embed(images)
    x = torch.cat([vit.cls_token.expand(len(x), -1, -1), x], dim=1) + vit.pos_embed
    x = torch.cat([torch.zeros(len(x), n, x.shape[2]), x], dim=1)
    for i, block in enumerate(vit.blocks):
        x = block(torch.cat([tokens[i].expand(len(x), -1, -1), x[:, n:]], dim=1))
        hidden = x[:, :n].flatten(1)
        for layer in ("fc1", "fc2"):
            weight, bias = predictors[f"predictors.{i}.{layer}.weight"], predictors[f"predictors.{i}.{layer}.bias"]
            hidden = F.gelu(hidden @ weight.T + bias)
        shifts.append(hidden)
        x = torch.cat([x[:, :n], x[:, n : n + 1] - hidden[:, None], x[:, n + 1 :]], dim=1)
    return vit.head(vit.norm(x)[:, n]), shifts


def pairwise_similarity(shifts: list[Tensor]) -> Tensor:
    """Mean over blocks of the mean over the whole matrix of cosines."""
    means = [F.cosine_similarity(s[:, None], s[None, :], dim=2, eps=1e-8).mean() for s in shifts]
    return torch.stack(means).mean()


@dataclass
class SlowSgd:
    params: list[Tensor]
    lr: float
    velocity: list[Tensor] = field(default_factory=list)

    def step(self, grads: list[Tensor]) -> None:
        zeros = [torch.zeros_like(p) for p in self.params]
        self.velocity = [MOMENTUM * v + g for v, g in zip(self.velocity or zeros, grads, strict=True)]
        for p, v in zip(self.params, self.velocity, strict=True):
            p.data = p.data - self.lr * v


def masked_mean_gradients(
    values: Tensor, mask: Tensor, extra: Tensor | float, params: list[Tensor], *, keep: bool = False
) -> tuple[list[Tensor], float]:
    """Gradients of the mean over a mask plus something; zeros and NaN for an empty mask, as torch has it."""
    if not mask.any():
        return [torch.zeros_like(p) for p in params], math.nan
    loss = values[mask].mean()
    grads = torch.autograd.grad(loss + extra, params, allow_unused=True, retain_graph=keep)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(params, grads, strict=True)], float(loss.detach())


class SlowSar:
    """SAR as released: second pass over the whole batch, stale average and momentum after a recovery."""

    def __init__(self, model: nn.Module, *, lr: float, threshold: float, score: str = "first", reset: float = 0.2):
        self.model, self.threshold, self.score, self.reset_below = model.eval(), threshold, score, reset
        self.named = early_norms(model)
        self.params = list(self.named.values())
        self.sgd = SlowSgd(self.params, lr)
        self.start = [p.detach().clone() for p in self.params]
        self.average: float | None = None
        self.resets = 0

    def adapt(self, batch: Tensor) -> Tensor:
        first = self.model(batch)
        reliable = entropy(first) < self.threshold
        grads, _ = masked_mean_gradients(entropy(first), reliable, 0.0, self.params)
        before = [p.detach().clone() for p in self.params]
        perturb(self.params, grads)
        second = self.model(batch)
        still = reliable & (entropy(second) < self.threshold)
        grads, loss = masked_mean_gradients(entropy(second), still, 0.0, self.params)
        restore(self.params, before)
        self.sgd.step(grads)
        self.watch(loss)
        return (second if self.score == "second" else first).detach()

    def watch(self, loss: float) -> None:
        if not math.isnan(loss):
            self.average = loss if self.average is None else 0.9 * self.average + 0.1 * loss
        if self.average is not None and self.average < self.reset_below:
            restore(self.params, self.start)
            self.resets += 1


class SlowDpal(SlowSar):
    """DPAL as released; `score` and `batch_size` (None: of the batch) turn it into the paper's reading."""

    def __init__(
        self,
        model: nn.Module,
        state: dict[str, Tensor],
        *,
        lr: float,
        threshold: float,
        score: str,
        batch_size: int | None,
        reset: float = 0.2,
    ) -> None:
        super().__init__(model, lr=lr, threshold=threshold, score=score, reset=reset)
        self.batch_size = batch_size
        self.tokens = state["shift_tokens"].clone().requires_grad_()
        self.predictors = {k: v.clone().requires_grad_() for k, v in state.items() if k.startswith("pred")}
        self.named = {**self.named, "shift_tokens": self.tokens, **self.predictors}
        self.params = [*self.params, self.tokens]
        self.start = [p.detach().clone() for p in self.params]
        self.predictor_start = [p.detach().clone() for p in self.predictors.values()]
        self.sgd = SlowSgd(self.params, lr)
        self.predictor_sgd = SlowSgd(list(self.predictors.values()), lr)

    def adapt(self, batch: Tensor) -> Tensor:
        first, shifts = lifted_forward(self.model, batch, self.tokens, self.predictors)
        reliable = entropy(first) < self.threshold
        weight = float(reliable.sum()) / (self.batch_size or len(batch))
        everything = [*self.params, *self.predictors.values()]
        grads, _ = masked_mean_gradients(entropy(first), reliable, -weight * pairwise_similarity(shifts), everything)
        self.predictor_sgd.step(grads[len(self.params) :])
        before = [p.detach().clone() for p in self.params]
        perturb(self.params, grads[: len(self.params)])
        second, _ = lifted_forward(self.model, batch, self.tokens, self.predictors)
        still = reliable & (entropy(second) < self.threshold)
        grads, loss = masked_mean_gradients(entropy(second), still, 0.0, self.params)
        restore(self.params, before)
        self.sgd.step(grads)
        resets = self.resets
        self.watch(loss)
        if self.resets > resets:
            restore(list(self.predictors.values()), self.predictor_start)
            self.predictor_sgd.velocity = []
        return (second if self.score == "second" else first).detach()


class SlowEata:
    """EATA as released: masks, the penalty by autograd, no step for a batch without kept samples."""

    def __init__(
        self, model: nn.Module, *, lr: float, threshold: float, redundancy: float, fisher_weight: float
    ) -> None:
        self.model, self.threshold, self.redundancy = model.eval(), threshold, redundancy
        self.fisher_weight = fisher_weight
        self.named = all_norms(model)
        self.params = list(self.named.values())
        self.source = [p.detach().clone() for p in self.params]
        self.fisher = [torch.zeros_like(p) for p in self.params]
        self.sgd = SlowSgd(self.params, lr)
        self.mean_probability: Tensor | None = None

    def prepare(self, batches: list[Tensor]) -> None:
        for batch in batches:
            logits = self.model(batch)
            grads = torch.autograd.grad(F.cross_entropy(logits, logits.argmax(1)), self.params)
            self.fisher = [f + g**2 / len(batches) for f, g in zip(self.fisher, grads, strict=True)]

    def adapt(self, batch: Tensor) -> Tensor:
        logits = self.model(batch)
        values, probabilities = entropy(logits), logits.detach().softmax(1)
        kept = values < self.threshold
        if self.mean_probability is not None:
            likeness = F.cosine_similarity(self.mean_probability[None], probabilities, dim=1)
            kept &= likeness.abs() < self.redundancy
        if kept.any():
            mean = probabilities[kept].mean(0)
            old = self.mean_probability
            self.mean_probability = mean if old is None else 0.9 * old + 0.1 * mean
            loss = (values * torch.exp(self.threshold - values.detach()))[kept].mean()
            for p, f, s in zip(self.params, self.fisher, self.source, strict=True):
                loss = loss + self.fisher_weight * (f * (p - s) ** 2).sum()
            self.sgd.step(list(torch.autograd.grad(loss, self.params)))
        return logits.detach()


def perturb(params: list[Tensor], grads: list[Tensor]) -> None:
    norm = torch.cat([g.flatten() for g in grads]).norm()
    for p, g in zip(params, grads, strict=True):
        p.data = p.data + RHO * g / (norm + 1e-12)


def restore(params: list[Tensor], values: list[Tensor]) -> None:
    for p, value in zip(params, values, strict=True):
        p.data = value.clone()
