"""The authors' steps of methods that look at features or statistics, written out plainly: see `released.py`."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.released import Run, by_the_batch, entropy, norms


def features_of(model: Any, images: Tensor) -> Tensor:
    """What enters the classifier."""
    found: Tensor = model.forward_head(model.forward_features(images), pre_logits=True)
    return found


def squashed(features: Tensor) -> Tensor:
    return nn.LayerNorm(features.shape[1], elementwise_affine=False)(features).tanh()


def cfa(model: Any, batches: list[Tensor], source: list[Tensor], labels: list[Tensor] | None, **s: Any) -> Run:
    """A class without source images is left out; its released mean is 0 / 0."""
    head, orders = model.get_classifier(), range(2, s["moments"] + 1)
    with torch.no_grad():
        h = torch.cat([squashed(features_of(model, batch)) for batch in source])
        truth = torch.cat([model(batch).argmax(1) for batch in source] if labels is None else labels)
    mean = h.mean(0)
    moments = [mean, *((h - mean).pow(j).mean(0) for j in orders)]
    class_means = [h[truth == c].mean(0) if (truth == c).any() else None for c in range(head.out_features)]
    learns = norms(by_the_batch(model))
    sgd = torch.optim.SGD(learns.values(), lr=s["lr"], momentum=s["momentum"])
    answers: list[Tensor] = []
    for batch in batches:
        features = features_of(model, batch)
        logits, h = head(features), squashed(features)
        mean, predicted = h.mean(0), logits.argmax(1)
        now = [mean, *((h - mean).pow(j).mean(0) for j in orders)]
        gaps = [(new - old).square().sum().sqrt() for new, old in zip(now, moments, strict=True)]
        loss = s["overall_weight"] * sum(gap / 2 ** (j + 1) for j, gap in enumerate(gaps))
        by_class = [
            (h[predicted == c].mean(0) - there).square().sum().sqrt() / 2
            for c, there in enumerate(class_means)
            if there is not None and (predicted == c).any()
        ]
        if by_class:
            loss = loss + s["class_weight"] * torch.stack(by_class).mean()
        sgd.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learns.values(), s["max_grad_norm"])
        sgd.step()
        answers.append(logits.detach())
    return answers, dict(learns)


def t3a(model: Any, batches: list[Tensor], *, filter_k: int, released_filter: bool = False) -> Run:
    head = model.get_classifier()
    with torch.no_grad():
        supports, logits = head.weight.clone(), head(head.weight)
        labels, entropies = F.one_hot(logits.argmax(1), len(supports)).float(), entropy(logits)
        answers, templates = [], supports
        for batch in batches:
            z = features_of(model, batch)
            logits = head(z)
            supports = torch.cat([supports, z])
            labels = torch.cat([labels, F.one_hot(logits.argmax(1), labels.shape[1]).float()])
            entropies = torch.cat([entropies, entropy(logits)])
            if filter_k != -1 or released_filter:
                kept = []
                for c in range(labels.shape[1]):
                    members = (labels.argmax(1) == c).nonzero()[:, 0]
                    kept.append(members[entropies[members].sort().indices][:filter_k])
                chosen = torch.cat(kept)
                supports, labels, entropies = supports[chosen], labels[chosen], entropies[chosen]
            templates = F.normalize(F.normalize(supports).T @ labels, dim=0)
            answers.append(z @ templates)
    return answers, {"templates": templates.T}


def lame(model: Any, batches: list[Tensor], *, affinity: str, knn: int = 5, force_symmetry: bool = False) -> Run:
    """Probabilities. The operations and their order are released: rounding decides when the loop ends."""
    answers: list[Tensor] = []
    for batch in batches:
        with torch.no_grad():
            unary = -torch.log(model(batch).softmax(-1) + 1e-10)
            x, n = F.normalize(features_of(model, batch), p=2, dim=-1), len(batch)
        distances = torch.norm(x.unsqueeze(0) - x.unsqueeze(1), dim=-1, p=2)
        if affinity == "kNN":
            nearest = distances.topk(min(knn + 1, n), -1, largest=False).indices[:, 1:]
            w = torch.zeros(n, n).scatter_(-1, nearest, 1.0)
        elif affinity == "rbf":
            sigma = distances.topk(min(knn, n), dim=-1, largest=False).values[:, -1].mean()
            w = torch.exp(-(distances**2) / (2 * sigma**2))
        else:
            w = x.matmul(x.t())
        w = 0.5 * (w + w.t()) if force_symmetry else w
        y, before = (-unary).softmax(-1), float("inf")
        for i in range(100):
            pairwise = w.matmul(y)
            y = (-unary + pairwise).softmax(-1)
            energy = (unary * y - pairwise * y + y * torch.log(y.clip(1e-20))).sum().item()
            if i > 1 and abs(energy - before) <= 1e-8 * abs(before):
                break
            before = energy
        answers.append(y)
    return answers, {}


def foa(
    model: Any, batches: list[Tensor], source: list[Tensor], prompts: Tensor, populations: list[Tensor], lam: float
) -> tuple[list[Tensor], dict[str, Tensor], list[list[float]]]:
    """The search itself is not here: candidates are given. Third: the fitness of the candidates of each batch."""
    width, answers, all_fitness = model.embed_dim, [], []
    average: Tensor | None = None
    with torch.no_grad():
        std_s, mean_s = torch.std_mean(torch.cat([prompted(model, batch, None) for batch in source]), dim=0)
        for batch, population in zip(batches, populations, strict=True):
            shift = None if average is None else mean_s[-width:] - average
            fitness, means, best = [], [], None
            candidates = [*population.view(-1, *prompts.shape), prompts]
            for candidate in candidates:
                features = prompted(model, batch, candidate)
                last = features[:, -width:]
                std, mean = torch.std_mean(features, dim=0)
                gap = (std - std_s).square().sum() + (mean - mean_s).square().sum()
                value = entropy(model.head(last)).sum() + lam * gap * len(batch) / 64
                if best is None or value.item() < min(fitness):
                    best, prompts = model.head(last if shift is None else last + shift), candidate
                fitness.append(value.item())
                means.append(mean[-width:])
            assert best is not None
            answers.append(best)
            now = torch.stack(means).mean(0)
            average = now if average is None else 0.9 * average + 0.1 * now
            all_fitness.append(fitness)
    assert average is not None
    return answers, {"prompts": prompts, "feature_mean": average}, all_fitness


def prompted(vit: Any, images: Tensor, prompts: Tensor | None) -> Tensor:
    """The class token as each block leaves it, through the norm that follows: [B, blocks * D]."""
    x = vit.patch_embed(images)
    x = torch.cat([vit.cls_token.expand(len(x), -1, -1), x], dim=1) + vit.pos_embed
    if prompts is not None:
        x = torch.cat([x[:, :1], prompts.expand(len(x), -1, -1), x[:, 1:]], dim=1)
    following = [*(block.norm1 for block in vit.blocks[1:]), vit.norm]
    found = []
    for block, norm in zip(vit.blocks, following, strict=True):
        x = block(x)
        found.append(norm(x)[:, 0])
    return torch.cat(found, dim=1)


def foa_shift(model: Any, batches: list[Tensor], source: list[Tensor]) -> Run:
    head, answers = model.get_classifier(), []
    average: Any = None
    with torch.no_grad():
        mean_s = torch.cat([features_of(model, batch) for batch in source]).mean(0)
        for batch in batches:
            features = features_of(model, batch)
            answers.append(head(features if average is None else features + (mean_s - average)))
            now = features.mean(0)
            average = now if average is None else 0.9 * average + 0.1 * now
    return answers, {"feature_mean": average}


def bn_test(model: Any, batches: list[Tensor]) -> Run:
    for module in model.eval().modules():
        if isinstance(module, nn.BatchNorm2d):
            module.train()
    with torch.no_grad():
        return [model(batch) for batch in batches], {}


def bn_alpha(model: Any, batches: list[Tensor], *, alpha: float) -> Run:
    """Each layer twice: with momentum 1 to read the batch's statistics back, then with the mixed ones."""

    def mix(norm: Any, args: tuple[Tensor], out: Tensor) -> Tensor:
        reader = nn.BatchNorm2d(norm.num_features, momentum=1.0, affine=False).train()
        reader(args[0])
        mean = (1 - alpha) * norm.running_mean + alpha * reader.running_mean
        var = (1 - alpha) * norm.running_var + alpha * reader.running_var
        return F.batch_norm(args[0], mean, var, norm.weight, norm.bias, False, 0.0, norm.eps)

    model = copy.deepcopy(model).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_hook(mix)
    with torch.no_grad():
        return [model(batch) for batch in batches], {}
