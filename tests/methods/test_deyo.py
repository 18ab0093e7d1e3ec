"""What the traces of DeYO do not pin down."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.small import small_resnet, small_vit, stream
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter


def built(model: Any = None, **params: Any) -> Any:
    return build_method("deyo", model or small_vit(), num_classes=10, batch_size=8, params=params)


def entropies(batch: Tensor) -> Tensor:
    with torch.no_grad():
        log_p = small_vit()(batch).log_softmax(1)
    return -(log_p.exp() * log_p).sum(1)


@pytest.mark.parametrize(
    ("sure", "plpd", "expected"), [(0, -2.0, (8, 0)), (3, 2.0, (8 + 3, 0)), (3, -2.0, (8 + 3 + 3, 3))]
)
def test_only_what_a_filter_or_the_loss_uses_is_computed(sure: int, plpd: float, expected: tuple[int, int]) -> None:
    batch = stream(count=1)[0]
    limits = [0.0, *entropies(batch).sort().values.tolist()]
    method = built(lr=0.0, entropy_threshold=sum(limits[sure : sure + 2]) / 2, plpd_threshold=plpd)
    with CostCounter(method.model) as counter:
        method.adapt(batch)
    assert (counter.sample_forwards, counter.sample_backwards) == expected


def test_nothing_kept_moves_nothing_not_even_by_momentum() -> None:
    method, (one, two) = built(lr=0.05, entropy_threshold=5.0, plpd_threshold=-2.0), stream(count=2)
    method.adapt(one)
    before = method.adapted_state()
    method.plpd_threshold = 2.0
    method.adapt(two)
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.adapted_state().items())


def test_with_both_weights_off_samples_count_alike() -> None:
    """Then DeYO with open filters is TENT on the norms of the early blocks."""
    model, batch = small_vit(), stream(count=1)[0]
    params = {"lr": 0.1, "momentum": 0.0, "entropy_threshold": 5.0, "plpd_threshold": -2.0}
    method = built(model, **params, reweight_ent=0.0, reweight_plpd=0.0)
    start = method.adapted_state()
    method.adapt(batch)
    plain = small_vit()
    log_p = plain(batch).log_softmax(1)
    named = {name: p for name, p in plain.named_parameters() if name in start}
    loss = -(log_p.exp() * log_p).sum(1).mean()
    for (name, value), grad in zip(named.items(), torch.autograd.grad(loss, list(named.values())), strict=True):
        torch.testing.assert_close(method.adapted_state()[name], value - 0.1 * grad, atol=1e-6, rtol=1e-4)


def test_patches_are_shuffled_for_each_image_apart_and_stay_whole() -> None:
    method, images = built(patch_len=4), torch.arange(16.0).view(4, 4)
    images = images.repeat_interleave(2, 0).repeat_interleave(2, 1).expand(200, 3, 8, 8)
    shuffled = method._destroyed(images)
    blocks = shuffled[:, 0].unfold(1, 2, 2).unfold(2, 2, 2).flatten(3).flatten(1, 2)
    assert torch.equal(blocks, blocks[..., :1].expand_as(blocks)), "a patch was cut"
    orders = blocks[..., 0].long()
    assert torch.equal(orders.sort(1).values, torch.arange(16).expand(200, -1))
    assert len({tuple(order) for order in orders.tolist()}) == 200
    counts = torch.stack([torch.bincount(column, minlength=16) for column in orders.T])  # 12.5 expected in each
    assert 0.5 < float(((counts - 12.5) ** 2 / 12.5).mean()) < 1.5


def test_channels_stay_together() -> None:
    method, image = built(patch_len=2), torch.rand(5, 1, 8, 8).expand(-1, 3, -1, -1)
    shuffled = method._destroyed(image * torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1))
    torch.testing.assert_close(shuffled[:, 1], 2 * shuffled[:, 0])
    torch.testing.assert_close(shuffled[:, 2], 3 * shuffled[:, 0])


def test_pixels_are_shuffled_alike_in_a_whole_batch() -> None:
    images = torch.rand(1, 3, 16, 16).expand(3, -1, -1, -1)
    shuffled = built(augmentation="pixel")._destroyed(images)
    assert torch.equal(shuffled, shuffled[:1].expand_as(shuffled))
    assert torch.equal(shuffled[0].flatten(1).sort(1).values, images[0].flatten(1).sort(1).values)
    assert not torch.equal(shuffled, images)


def test_the_middle_is_covered_by_default() -> None:
    images = torch.rand(2, 3, 224, 224)
    covered = built(augmentation="occlusion")._destroyed(images)
    inside = covered[..., 56:168, 56:168]
    assert torch.allclose(inside, images.mean((2, 3), keepdim=True).expand_as(inside))
    covered[..., 56:168, 56:168] = images[..., 56:168, 56:168]
    assert torch.equal(covered, images)


def test_images_need_not_be_square_nor_divisible() -> None:
    method = built(patch_len=3)
    assert method._destroyed(torch.rand(2, 3, 20, 31)).shape == (2, 3, 20, 31)


def test_published_thresholds_by_classes_and_kind_of_model() -> None:
    vit = build_method("deyo", small_vit(num_classes=7), num_classes=7)
    assert vit.entropy_threshold == pytest.approx(0.5 * math.log(7))
    assert vit.entropy_margin == pytest.approx(0.4 * math.log(7))
    assert [built(model).plpd_threshold for model in (small_vit(), small_resnet("group"), small_resnet())] == [
        0.2,
        0.2,
        0.3,
    ]
    assert build_method("deyo", small_vit(), num_classes=10, batch_size=1).lr == pytest.approx(3.125e-5)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"patch_len": 0}, "patch_len is 0"),
        ({"augmentation": "occlusion", "occlusion_size": 0}, "occlusion_size is 0"),
        ({"augmentation": "noise"}, "'patch' or 'occlusion' or 'pixel'"),
    ],
)
def test_bad_settings_are_refused(params: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        built(**params)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"patch_len": 17}, "images of 16 x 16 pixels have no 17 patches along a side"),
        ({"augmentation": "occlusion", "occlusion_row": 56}, "occlusion_row 56, occlusion_column 4 lies outside"),
    ],
)
def test_settings_that_do_not_fit_the_images_are_refused(params: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        built(entropy_threshold=5.0, **params).adapt(stream(count=1)[0])
