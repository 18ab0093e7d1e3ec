"""bn-test, bn-alpha, and RDumb's resets."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.support.small import small_resnet, small_vit, stream, tiny
from tta_bench import build_method
from tta_bench.errors import UserError


def built(name: str, model: nn.Module, **params: Any) -> Any:
    return build_method(name, model, num_classes=10, batch_size=8, params=params)


def mixed_by_hand(model: Any, batch: Tensor, alpha: float) -> Tensor:
    """Layer after layer: run up to it, take its input's statistics, mix them in for good, go on to the next."""
    model = copy.deepcopy(model)
    for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
        seen: list[Tensor] = []
        hook = norm.register_forward_pre_hook(lambda m, args, seen=seen: seen.append(args[0]))
        with torch.no_grad():
            model(batch)
            hook.remove()
            values = seen[0].transpose(0, 1).flatten(1)
            norm.running_mean.mul_(1 - alpha).add_(alpha * values.mean(1))
            norm.running_var.mul_(1 - alpha).add_(alpha * values.var(1, unbiased=True))
    with torch.no_grad():
        return model(batch)


def test_bn_test_is_a_forward_in_training_mode() -> None:
    network, method = small_resnet(), built("bn-test", small_resnet())
    for batch in stream(count=3, pixels=32, last=3):
        with torch.no_grad():
            expected = copy.deepcopy(network).train()(batch)
        torch.testing.assert_close(method.adapt(batch), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("network", [small_resnet(), tiny("resnet10t"), tiny("efficientnet_lite0")])
def test_bn_alpha_mixes_source_and_batch(network: nn.Module, alpha: float) -> None:
    method = built("bn-alpha", copy.deepcopy(network), alpha=alpha)
    for batch in stream(count=2, pixels=64, last=3):
        torch.testing.assert_close(method.adapt(batch), mixed_by_hand(network, batch, alpha), atol=1e-4, rtol=1e-3)


def test_bn_alpha_of_one_is_not_bn_test() -> None:
    (batch,) = stream(count=1, pixels=32)
    whole, test = (built(name, small_resnet(), **params).adapt(batch) for name, params in ALPHA_ONE)
    assert not torch.allclose(whole, test, atol=1e-4)


ALPHA_ONE: list[tuple[str, dict[str, float]]] = [("bn-alpha", {"alpha": 1.0}), ("bn-test", {})]


def test_bn_alpha_leaves_the_source_statistics_as_they_were_also_after_a_failure() -> None:
    network = small_resnet()
    before = copy.deepcopy(network.state_dict())
    method = built("bn-alpha", network, alpha=0.5)
    method.adapt(stream(count=1, pixels=32)[0])
    with pytest.raises(RuntimeError):
        method.adapt(torch.rand(2, 1, 32, 32))
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert not any(module._forward_pre_hooks for module in network.modules())


@pytest.mark.parametrize("name", ["bn-test", "bn-alpha"])
def test_one_image_with_one_pixel_left(name: str) -> None:
    method = built(name, small_resnet())
    assert method.adapt(stream(count=1, size=1, pixels=32)[0]).isfinite().all()


@pytest.mark.parametrize("network", [small_vit(), small_resnet("group"), tiny("convnext_atto")])
@pytest.mark.parametrize("name", ["bn-test", "bn-alpha"])
def test_models_without_batchnorm_are_refused(name: str, network: nn.Module) -> None:
    kind = type(network).__name__
    with pytest.raises(UserError, match=f"{name} adapts the statistics of BatchNorm2d layers, and {kind} has none"):
        built(name, network)


def test_a_batchnorm_without_source_statistics_is_refused() -> None:
    network = small_resnet()
    built("tent", network)  # takes them away
    with pytest.raises(UserError, match="keeps no statistics of the source data"):
        built("bn-alpha", network)


@pytest.mark.parametrize("network", [small_vit, small_resnet])
def test_rdumb_is_eta_that_starts_again(network: Any) -> None:
    settings = {"lr": 0.01, "entropy_threshold": 5.0, "redundancy_threshold": 2.0}
    batches = stream(count=7, pixels=16)
    rdumb = built("rdumb", network(), reset_interval=3, **settings)
    found = [rdumb.adapt(batch) for batch in batches]
    expected = []
    for start in (0, 3, 6):
        eta = built("eta", network(), **settings)
        expected += [eta.adapt(batch) for batch in batches[start : start + 3]]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    assert rdumb.resets == 2


def test_rdumb_counts_batches_in_which_nothing_was_kept() -> None:
    method = built("rdumb", small_vit(), reset_interval=2, entropy_threshold=0.0)
    for batch in stream(count=5):
        method.adapt(batch)
    assert method.resets == 2


def test_rdumb_without_an_interval_is_eta() -> None:
    settings = {"lr": 0.01, "entropy_threshold": 5.0}
    rdumb, eta = built("rdumb", small_vit(), reset_interval=0, **settings), built("eta", small_vit(), **settings)
    for batch in stream(count=4):
        assert torch.equal(rdumb.adapt(batch), eta.adapt(batch))
    assert rdumb.resets == 0


@pytest.mark.parametrize("batch_size", [1, 64])
def test_rdumbs_rate_does_not_depend_on_the_batch_size(batch_size: int) -> None:
    method: Any = build_method("rdumb", small_vit(), num_classes=10, batch_size=batch_size)
    assert method.lr == 2.5e-4
    assert method.reset_interval == 1000
