"""T3A against a literal loop over classes, and what its traces do not pin down."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.other_models import SCENES
from tests.support.released_features import t3a
from tests.support.small import small_vit, stream
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.models.source import keep_classes

CLASSES = 30


class SlowT3a:
    """The supports as lists, sorted and cut class by class."""

    def __init__(self, model: Any, k: int, drop_worst: bool = False) -> None:
        self.model, self.k, self.drop_worst = model, k, drop_worst
        self.supports: list[tuple[Tensor, int, float]] = []
        self.join(model.head.weight.detach())

    def join(self, features: Tensor) -> None:
        log_p = F.linear(features, self.model.head.weight, self.model.head.bias).log_softmax(1).detach()
        for z, row in zip(features, log_p, strict=True):
            self.supports.append((z, int(row.argmax()), float(-(row.exp() * row).sum())))

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        features = self.model.forward_head(self.model.forward_features(batch), pre_logits=True)
        self.join(features)
        kept, templates = [], []
        for label in range(CLASSES):
            mine = sorted((s for s in self.supports if s[1] == label), key=lambda s: s[2])
            mine = mine[:-1] if self.drop_worst else mine if self.k == -1 else mine[: self.k]
            kept += mine
            total = sum((s[0] / s[0].norm() for s in mine), torch.zeros(features.shape[1]))
            templates.append(total / total.norm().clamp(min=1e-12))
        self.supports = kept
        return features @ torch.stack(templates).T


def model() -> Any:
    return small_vit(seed=5, num_classes=CLASSES, embed_dim=16, num_heads=2, depth=4)


@pytest.mark.parametrize(("k", "released"), [(1, False), (3, False), (20, False), (-1, False), (-1, True)])
def test_a_literal_loop_gives_the_same(k: int, released: bool) -> None:
    params = {"filter_k": k, "released_filter": released}
    method, slow = build_method("t3a", model(), num_classes=CLASSES, params=params), SlowT3a(model(), k, released)
    for batch in stream(count=10, size=12, last=1):
        torch.testing.assert_close(method.adapt(batch), slow.adapt(batch), atol=1e-5, rtol=1e-4)


def test_one_image_shares_its_template_with_the_weight_row_alone() -> None:
    network = small_vit()
    with torch.no_grad():
        network.head.weight.copy_(torch.eye(10, 24) * 5)  # every row has its own class
        network.head.bias.zero_()
    method = build_method("t3a", network, num_classes=10)
    (batch,) = stream(count=1, size=1)
    with torch.no_grad():
        feature = network.forward_head(network.forward_features(batch), pre_logits=True)[0]
        label = int(network(batch).argmax())
    method.adapt(batch)
    row = network.head.weight[label].detach()
    expected = F.normalize(row / row.norm() + feature / feature.norm(), dim=0)
    torch.testing.assert_close(method.adapted_state()["templates"][label], expected)


def test_a_class_without_supports_has_logit_zero() -> None:
    network = small_vit()
    with torch.no_grad():
        network.head.weight.mul_(1e-3)
        network.head.bias.copy_(torch.arange(10.0))  # whatever comes in is called 9
    method = build_method("t3a", network, num_classes=10)
    logits = method.adapt(stream(count=1)[0])
    assert not logits[:, :9].any()
    assert logits[:, 9].all()


def test_memory_stays_within_k_supports_per_class() -> None:
    method: Any = build_method("t3a", small_vit(), num_classes=10, params={"filter_k": 7})
    for batch in stream(count=40):
        method.adapt(batch)
    assert method._supports._units.shape == (10, 7, 24)
    everything: Any = build_method("t3a", small_vit(), num_classes=10, params={"filter_k": -1})
    before = set(vars(everything._supports))
    everything.adapt(stream(count=1)[0])
    assert before == set(vars(everything._supports)) == {"sums"}


def test_a_large_k_costs_no_memory_before_it_is_needed() -> None:
    method: Any = build_method("t3a", small_vit(), num_classes=10, params={"filter_k": 10**9})
    method.adapt(stream(count=1)[0])
    assert method._supports._units.shape[1] <= 16


def test_a_mask_leaves_templates_of_its_classes_only() -> None:
    network, mask = small_vit(), [7, 2, 5]
    keep_classes(network, mask)
    method = build_method("t3a", network, num_classes=3)
    assert method.adapt(stream(count=1)[0]).shape == (8, 3)
    with pytest.raises(UserError, match="the classifier makes 10 logits, expected 3"):
        build_method("t3a", small_vit(), num_classes=3)


def test_entropies_that_only_rounding_tells_apart_are_ranked_as_released() -> None:
    scene = SCENES["few classes, batch norm"]
    model = scene.model()
    for parameter in model.fc.parameters():
        parameter.data *= 0.01
    expected, state = t3a(model, scene.batches(), filter_k=5)
    method = build_method("t3a", model, num_classes=scene.classes, params={"filter_k": 5})
    for batch, logits in zip(scene.batches(), expected, strict=True):
        torch.testing.assert_close(method.adapt(batch), logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(method.adapted_state()["templates"], state["templates"], atol=1e-4, rtol=0)
