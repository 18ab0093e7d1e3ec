"""CFA against its loss written out, its source statistics, and what the traces do not pin down."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tta_bench_methods._moments import Moments

from tests.support.small import small_resnet, small_vit, stream
from tta_bench import build_method
from tta_bench.errors import UserError

CLASSES = 10


def built(model: nn.Module, **params: Any) -> Any:
    return build_method("cfa", model, num_classes=CLASSES, batch_size=8, params=params)


def squashed(model: Any, batch: Tensor) -> Tensor:
    h = model.forward_head(model.forward_features(batch), pre_logits=True)
    return F.layer_norm(h, h.shape[1:]).tanh()


def written_out(model: Any, batch: Tensor, source: Tensor, labels: Tensor, orders: int) -> Tensor:
    """The loss at a batch: sums of squares and roots, class by class, source statistics from all features at once."""
    h, predicted = squashed(model, batch), model(batch).argmax(1)
    loss = ((h.mean(0) - source.mean(0)) ** 2).sum().sqrt() / 2
    for j in range(2, orders + 1):
        one, other = ((x - x.mean(0)).pow(j).mean(0) for x in (h, source))
        loss = loss + ((one - other) ** 2).sum().sqrt() / 2**j
    distances = [
        ((h[predicted == c].mean(0) - source[labels == c].mean(0)) ** 2).sum().sqrt() / 2
        for c in range(CLASSES)
        if (predicted == c).any() and (labels == c).any()
    ]
    return loss + (sum(distances) / len(distances) if distances else 0)


@pytest.mark.parametrize("orders", [1, 3, 5])
@pytest.mark.parametrize("classes", [CLASSES, 4])
def test_one_step_down_the_written_out_loss(orders: int, classes: int) -> None:
    """With labels of four classes only, the others have no source mean and stay out of the loss."""
    model = small_vit(seed=8, embed_dim=16, num_heads=2, depth=3)
    other, source = copy.deepcopy(model), stream(count=4, seed=7)
    labels = [torch.arange(8) * 3 % classes for _ in source]
    method = built(model, lr=0.1, max_grad_norm=1e9, moments=orders)
    method.prepare(iter(source), iter(labels))
    batch = stream(count=1)[0]
    with torch.no_grad():
        features = torch.cat([squashed(other, part) for part in source])
    named = {name: p for name, p in other.named_parameters() if name in method.adapted_parameters()}
    loss = written_out(other, batch, features, torch.cat(labels), orders)
    grads = dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))
    before = method.adapted_state()
    method.adapt(batch)
    for name, value in method.adapted_state().items():
        torch.testing.assert_close(value, before[name] - 0.1 * grads[name], atol=1e-5, rtol=1e-4, msg=name)


def test_the_gradient_is_clipped() -> None:
    steps = {}
    for limit in (1e9, 0.01):
        method = built(small_vit(), lr=1.0, momentum=0.0, max_grad_norm=limit)
        method.prepare(stream(count=2, seed=7))
        before = method.adapted_state()
        method.adapt(stream(count=1)[0])
        steps[limit] = {name: before[name] - value for name, value in method.adapted_state().items()}
    length = torch.cat([step.flatten() for step in steps[1e9].values()]).norm()
    assert length > 0.01
    for name, step in steps[0.01].items():
        torch.testing.assert_close(step, steps[1e9][name] * 0.01 / length, atol=1e-6, rtol=1e-2)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_moments_of_batches_are_those_of_all(order: int) -> None:
    features = torch.rand(50, 6, generator=torch.Generator().manual_seed(1)).mul(2).sub(1)
    moments = Moments(order, 6)
    for part in features.split(7):
        moments.add(part)
    mean = features.double().mean(0)
    central = [(features - mean).pow(j).mean(0) for j in range(2, order + 1)]
    torch.testing.assert_close(moments.central(), torch.stack([mean, *central]))
    if order > 1:
        torch.testing.assert_close(moments.std(), features.double().std(0))


def test_no_distance_no_nan() -> None:
    """The stream's batch is the source: every distance is zero, where a root has no gradient."""
    method = built(small_vit(), lr=0.1)
    (batch,) = stream(count=1)
    method.prepare([batch])
    method.adapt(batch)
    assert all(value.isfinite().all() for value in method.adapted_state().values())


def test_classes_that_no_source_image_has_stay_out() -> None:
    """Of all predictions none is known: the class term is zero, and finite."""
    method = built(small_vit(), lr=0.1, overall_weight=0.0)
    (batch,) = stream(count=1)
    with torch.no_grad():
        never = next(c for c in range(CLASSES) if c not in method.model(batch).argmax(1))
    method.prepare([batch], [torch.full((8,), never)])
    before = method.adapted_state()
    method.adapt(batch)
    assert all(torch.equal(value, before[name]) for name, value in method.adapted_state().items())


def test_without_labels_the_models_own_predictions_count() -> None:
    model, source = small_vit(), stream(count=2, seed=7)
    with torch.no_grad():
        guesses = [model(batch).argmax(1) for batch in source]
    one, other = built(model), built(small_vit())
    one.prepare(source)
    other.prepare(source, guesses)
    assert all(torch.equal(value, other.prepared_state()[key]) for key, value in one.prepared_state().items())


def test_batchnorm_sees_the_source_with_source_statistics_and_the_stream_with_its_own() -> None:
    model, source = small_resnet(), stream(count=2, seed=7, pixels=32)
    plain = copy.deepcopy(model)
    method = built(model)
    method.prepare(source)
    with torch.no_grad():
        mean = torch.cat([squashed(plain, batch) for batch in source]).mean(0)
        expected = plain.train()(source[0])
    torch.testing.assert_close(method.prepared_state()["moments"][0], mean)
    torch.testing.assert_close(method.adapt(source[0]), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([torch.zeros(8, dtype=torch.int64)], "got labels for 1 only; expected one label tensor per batch"),
        ([torch.zeros(8, dtype=torch.int64)] * 3, "got batches for 2 only"),
        ([torch.zeros(7, dtype=torch.int64)] * 2, r"source batch 0 has 8 images and labels of shape \(7,\)"),
        ([torch.full((8,), 10)] * 2, "source batch 0 has labels outside of 0 to 9"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: list[Tensor], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        built(small_vit()).prepare(stream(count=2), labels)
