"""The augmentation of CoTTA, ROID and CMF against the published pipeline, step by step with torchvision."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torchvision.transforms as published
import torchvision.transforms.functional as V
from torch import Tensor
from tta_bench_methods import _augment, _colour
from tta_bench_methods._augment import ColourAndAffine
from tta_bench_methods._draws import Draws

from tests.support.small import small_vit
from tta_bench import build_method

KINDS: dict[str, dict[str, Any]] = {
    "roid": {},
    "cotta": {"padding": "edge", "blur": True, "noise": 0.005},
}
# The published ranges, written here once more: a test that read ours would agree with any of them.
RANGES = {
    "brightness": (0.6, 1.4),
    "contrast": (0.7, 1.3),
    "saturation": (0.5, 1.5),
    "hue": (-0.06, 0.06),
    "gamma": (0.7, 1.3),
}
CHANGES = tuple(RANGES)
METHODS = {"cotta": "cotta", "roid": "roid", "cmf": "roid"}


def pictures(count: int = 4, size: int = 32, seed: int = 0) -> Tensor:
    """Smooth random images with structure, so that a wrong turn or shift shows."""
    noise = torch.rand(count, 3, size // 4, size // 4, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.interpolate(noise, size=size, mode="bicubic").clamp(0, 1)


def changed(images: Tensor, name: str, factor: float) -> Tensor:
    images = images.clamp(1e-8, 1) if name == "gamma" else images
    return getattr(V, f"adjust_{name}")(images, factor)


def by_hand(images: Tensor, draws: Draws, *, padding: str = "reflect", blur: bool = False, noise: float = 0) -> Tensor:
    """The published steps, on the padded image, with the same draws."""
    size = images.shape[-1]
    images = images.clamp(0, 1)
    for i in draws.order(5):
        images = changed(images, CHANGES[i], draws.uniform(*RANGES[CHANGES[i]]))
    images = V.pad(images, [size // 2], padding_mode=padding)
    turn = draws.uniform(-15, 15)
    shift = [round(draws.uniform(-2 * size / 16, 2 * size / 16)) for _ in "xy"]
    scale = draws.uniform(0.9, 1.1)
    images = V.affine(images, turn, shift, scale, [0.0, 0.0], interpolation=V.InterpolationMode.BILINEAR)
    if blur:
        images = V.gaussian_blur(images, [5, 5], [draws.uniform(0.001, 0.5)] * 2)
    images = V.center_crop(images, [size, size])
    if draws.uniform(0, 1) < 0.5:
        images = images.flip(-1)
    if noise:
        images = images + torch.empty_like(images).normal_(0, noise, generator=draws.on(images.device))
    return images.clamp(0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_sampling_only_what_stays_gives_the_published_numbers(kind: str) -> None:
    quick, slow, images = ColourAndAffine(Draws(3), **KINDS[kind]), Draws(3), pictures()
    for _ in range(25):
        torch.testing.assert_close(quick(images), by_hand(images, slow, **KINDS[kind]), atol=2e-4, rtol=0)


@pytest.mark.parametrize("name", METHODS)
def test_each_method_has_its_own_kind_of_views(name: str) -> None:
    method: Any = build_method(name, small_vit(), num_classes=10, params={"seed": 7})
    draws, images = Draws(7), pictures()
    for _ in range(8):
        view = method.views(images, 1)[0] if name == "cotta" else method.augment(images)
        torch.testing.assert_close(view, by_hand(images, draws, **KINDS[METHODS[name]]), atol=2e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_published_distribution(kind: str) -> None:
    """Against torchvision's own random transforms: means and spreads of light, place and mirroring."""
    images, draws = pictures(1), ColourAndAffine(Draws(0), **KINDS[kind])
    count = 600
    ours = torch.cat([draws(images) for _ in range(count)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs = torch.cat([drawn_by_torchvision(images, **KINDS[kind]) for _ in range(count)])
    for one, other in zip(facts(ours, images), facts(theirs, images), strict=True):
        error = math.sqrt(float(one.var() + other.var()) / count)
        assert abs(float(one.mean() - other.mean())) < 4 * error
        assert 0.8 < float(one.std() / other.std()) < 1.25


def drawn_by_torchvision(images: Tensor, *, padding: str = "reflect", blur: bool = False, noise: float = 0) -> Tensor:
    size = images.shape[-1]
    images = images.clamp(0, 1)
    for i in torch.randperm(5).tolist():
        images = changed(images, CHANGES[i], float(torch.empty(1).uniform_(*RANGES[CHANGES[i]])))
    steps: list[Any] = [
        published.Pad(size // 2, padding_mode=padding),
        published.RandomAffine(
            15, translate=(1 / 16, 1 / 16), scale=(0.9, 1.1), interpolation=V.InterpolationMode.BILINEAR
        ),
        published.CenterCrop(size),
        published.RandomHorizontalFlip(),
    ]
    if blur:
        steps.insert(2, published.GaussianBlur(5, sigma=(0.001, 0.5)))
    images = published.Compose(steps)(images)
    return (images + noise * torch.randn_like(images)).clamp(0, 1)


def facts(views: Tensor, images: Tensor) -> list[Tensor]:
    """Per view: brightness, contrast, colourfulness, likeness to the image and to its mirror image, roughness."""
    flat = views - views.mean((1, 2, 3), keepdim=True)
    likeness = [(flat * (way - way.mean())).mean((1, 2, 3)) for way in (images, images.flip(-1))]
    rough = views.diff(dim=-1).abs().mean((1, 2, 3))
    return [views.mean((1, 2, 3)), views.std((1, 2, 3)), views.std(1).mean((1, 2)), *likeness, rough]


@pytest.mark.parametrize("name", CHANGES)
def test_colours_change_as_in_torchvision(name: str) -> None:
    images = torch.cat([pictures(2), torch.full((1, 3, 32, 32), 0.4), torch.zeros(1, 3, 32, 32)])
    images[0] = (images[0] * 4).round() / 4  # ties between channels, black and white
    change, (low, high) = _augment.COLOURS[CHANGES.index(name)][0], RANGES[name]
    assert change is getattr(_colour, name)
    for factor in torch.linspace(low, high, 7).tolist():
        torch.testing.assert_close(change(images, factor), changed(images, name, factor), atol=1e-5, rtol=0)
    each = torch.linspace(low, high, len(images)).view(-1, 1, 1, 1)
    for i, factor in enumerate(each.flatten().tolist()):
        torch.testing.assert_close(change(images, each)[i], change(images[i : i + 1], factor)[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_the_views_and_the_input_is_left_alone(kind: str) -> None:
    images = pictures() * 3 - 1  # beyond [0, 1] too
    copy = images.clone()
    one, same, other = (ColourAndAffine(Draws(seed), **KINDS[kind]) for seed in (0, 0, 1))
    first = one(images)
    assert torch.equal(first, same(images))
    assert not torch.allclose(first, one(images))
    assert not torch.allclose(first, other(images))
    assert torch.equal(images, copy)
    assert 0 <= float(first.min()) <= float(first.max()) <= 1


def test_images_need_not_be_square() -> None:
    assert ColourAndAffine(Draws(0), blur=True)(torch.rand(2, 3, 24, 40)).shape == (2, 3, 24, 40)
