"""What the traces of MEMO do not pin down."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tta_bench_methods import memo

from tests.support.small import small_resnet, small_vit, stream
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter

VIEWS = 6


def built(model: Any = None, **params: Any) -> Any:
    params = {"augmentations": VIEWS, "lr": 1e-3, **params}
    return build_method("memo", model or small_vit(), num_classes=10, batch_size=8, params=params)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_every_image_starts_from_the_source_weights(optimizer: str) -> None:
    method, seen = built(optimizer=optimizer), []
    draw = method.views

    def views(images: Tensor, count: int) -> Tensor:
        seen.append([torch.equal(tensor, method.snapshot[name]) for name, tensor in method._adapted.items()])
        return draw(images, count)

    method.views = views
    for batch in stream(count=2, size=3):
        method.adapt(batch)
    assert len(seen) == 6
    assert all(all(equal) for equal in seen)


def test_a_batch_is_its_images_one_by_one() -> None:
    (batch,) = stream(count=1, size=4)
    whole, single = built(), built()
    torch.testing.assert_close(whole.adapt(batch), torch.cat([single.adapt(image) for image in batch.split(1)]))


@pytest.mark.parametrize(("reset_optimizer", "same"), [(True, True), (False, False)])
def test_moments_of_adamw_stay_between_images_unless_reset(reset_optimizer: bool, same: bool) -> None:
    (batch,) = stream(count=1, size=2)
    fresh = built(optimizer="adamw", reset_optimizer=reset_optimizer)
    later = built(optimizer="adamw", reset_optimizer=reset_optimizer)
    for method in (fresh, later):
        method.views = lambda images, count: images.expand(count, *images.shape) * 0.9
    later.adapt(batch[:1])
    assert torch.equal(fresh.adapt(batch[1:]), later.adapt(batch[1:])) == same


def test_predictions_are_the_source_models_and_change_nothing() -> None:
    model, (batch,) = small_vit(), stream(count=1)
    with torch.no_grad():
        expected = model(batch)
    method = built(model, lr=0.1)
    method.adapt(batch[:2])
    state = method.adapted_state()
    torch.testing.assert_close(method.predict(batch), expected)
    assert all(torch.equal(tensor, state[name]) for name, tensor in method.adapted_state().items())


def test_passes_are_counted_for_views_and_the_plain_image() -> None:
    method, (batch,) = built(), stream(count=1, size=3)
    with CostCounter(method.model) as counter:
        method.adapt(batch)
    assert (counter.sample_forwards, counter.sample_backwards) == (3 * (VIEWS + 1), 3 * VIEWS)
    assert counter.optimizer_steps == 3


def test_pieces_give_the_same_as_all_views_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (batch,) = stream(count=1, size=2)
    expected = built().adapt(batch)
    monkeypatch.setattr(memo, "CPU_PIECE", 2 * batch[0].nbytes)
    method = built()
    sizes: list[int] = []
    method.model.patch_embed.register_forward_pre_hook(lambda module, args: sizes.append(len(args[0])))
    torch.testing.assert_close(method.adapt(batch), expected, atol=1e-5, rtol=1e-4)
    assert sizes == [2, 2, 2, 1] * 2


def test_the_mean_is_of_probabilities() -> None:
    logits = torch.randn(5, 10, generator=torch.Generator().manual_seed(0)) * 3
    mean = logits.softmax(1).mean(0)
    torch.testing.assert_close(memo.marginal_entropy(logits), -(mean * mean.log()).sum())
    assert memo.marginal_entropy(torch.tensor([[2000.0, 0.0], [2000.0, 0.0]])).isfinite()


@pytest.mark.parametrize(
    ("model", "optimizer", "lr", "decay"),
    [(small_vit, "adamw", 1e-5, 0.01), (lambda: small_resnet("group"), "sgd", 2.5e-4, 0.0)],
)
def test_published_optimizer_by_the_kind_of_model(model: Any, optimizer: str, lr: float, decay: float) -> None:
    method: Any = build_method("memo", model(), num_classes=10)
    assert (method.optimizer, method.lr, method.weight_decay) == (optimizer, lr, decay)


def mixed_forward(norm: nn.BatchNorm2d, values: Tensor, prior: float) -> Tensor:
    """The released BatchNorm: statistics read back from a layer with momentum 1, no gradient through them."""
    mean, var = torch.zeros_like(norm.running_mean), torch.ones_like(norm.running_var)
    F.batch_norm(values.detach(), mean, var, None, None, True, 1.0, norm.eps)
    mean, var = (prior * kept + (1 - prior) * met for kept, met in ((norm.running_mean, mean), (norm.running_var, var)))
    return F.batch_norm(values, mean, var, norm.weight, norm.bias, False, 0, norm.eps)


@pytest.mark.parametrize("strength", [16.0, 0.0, -1.0])
def test_batchnorm_mixes_statistics_as_released(strength: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 96 px, where the last map has more than one pixel: at one the released code stops."""
    method = built(small_resnet(), prior_strength=strength)
    (batch,) = stream(count=1, size=1, pixels=96)
    views = method.views(batch, VIEWS)
    method.views = lambda images, count: views
    buffers = {name: value.clone() for name, value in method.model.named_buffers()}
    found = method.adapt(batch)
    assert all(torch.equal(value, buffers[name]) for name, value in method.model.named_buffers())

    model = small_resnet()
    prior = strength / (strength + 1) if strength >= 0 else 1.0
    monkeypatch.setattr(nn.BatchNorm2d, "forward", lambda norm, values: mixed_forward(norm, values, prior))
    loss = memo.marginal_entropy(model(views[:, 0]))
    parameters = list(model.parameters())
    for parameter, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= 1e-3 * grad
    with torch.no_grad():
        torch.testing.assert_close(found, model(batch), atol=1e-5, rtol=1e-4)


def test_one_pixel_of_one_image_keeps_the_source_variance() -> None:
    method = built(small_resnet())
    for batch in stream(count=2, size=2, pixels=32):
        assert method.adapt(batch).isfinite().all()


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"augmentations": 0}, "augmentations is 0, expected 1 or more views of each image"),
        ({"optimizer": "adam"}, "'sgd' or 'adamw'"),
    ],
)
def test_bad_settings_are_refused(params: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        built(**params)
