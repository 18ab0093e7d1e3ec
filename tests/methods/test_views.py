"""MEMO's AugMix and AdaContrast's MoCo views against the published ones, image by image with Pillow."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as published
import torchvision.transforms.functional as V
from PIL import Image, ImageFilter, ImageOps
from torch import Tensor
from tta_bench_methods import _augmix, _crops, _moco
from tta_bench_methods._augment import ColourAndAffine
from tta_bench_methods._augmix import AugMix
from tta_bench_methods._draws import Draws
from tta_bench_methods._moco import MocoViews

from tests.methods.test_augment import facts, pictures

COUNT = 400


def to_pil(image: Tensor) -> Image.Image:
    return V.to_pil_image((image * 255).round().to(torch.uint8))


def level(most: float) -> float:
    return np.random.uniform(0.1, 1) * most / 10


def either_way(value: float) -> float:
    return value if np.random.uniform() > 0.5 else -value


def moved(image: Image.Image, *numbers: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, numbers, Image.Resampling.BILINEAR, fillcolor=128)


def rotated(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(degrees, resample=Image.Resampling.BILINEAR, fillcolor=128)


OPERATIONS: list[Callable[[Image.Image], Image.Image]] = [
    ImageOps.autocontrast,
    ImageOps.equalize,
    lambda x: rotated(x, either_way(int(level(30)))),
    lambda x: ImageOps.solarize(x, 256 - int(level(256))),
    lambda x: moved(x, 1, either_way(level(0.3)), 0, 0, 1, 0),
    lambda x: moved(x, 1, 0, 0, either_way(level(0.3)), 1, 0),
    lambda x: moved(x, 1, 0, either_way(int(level(x.width / 3))), 0, 1, 0),
    lambda x: moved(x, 1, 0, 0, 0, 1, either_way(int(level(x.height / 3)))),
    lambda x: ImageOps.posterize(x, 4 - int(level(4))),
]


def augmix_by_hand(image: Tensor) -> Tensor:
    size = image.shape[-1]
    crop = published.Compose([published.RandomResizedCrop(size), published.RandomHorizontalFlip()])(to_pil(image))
    mixed = torch.zeros_like(image)
    for weight in np.random.dirichlet([1, 1, 1]):
        copy = crop
        for _ in range(np.random.randint(1, 4)):
            copy = OPERATIONS[np.random.randint(len(OPERATIONS))](copy)
        mixed += float(weight) * V.to_tensor(copy)
    share = float(np.random.beta(1, 1))
    return share * V.to_tensor(crop) + (1 - share) * mixed


def moco_by_hand(image: Tensor, crop: bool) -> Tensor:
    size = image.shape[-1]
    blur = published.Lambda(lambda x: x.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2))))
    steps: list[Any] = [
        published.RandomApply([published.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
        published.RandomGrayscale(p=0.2),
        published.RandomApply([blur], p=0.5),
        published.RandomHorizontalFlip(),
        published.ToTensor(),
    ]
    if crop:
        steps.insert(0, published.RandomResizedCrop(size, scale=(0.2, 1)))
    return published.Compose(steps)(to_pil(image))


def weak_by_hand(image: Tensor, crop: bool) -> Tensor:
    size = image.shape[-1]
    steps: list[Any] = [published.RandomHorizontalFlip(), published.ToTensor()]
    if crop:
        steps = [published.Resize((size * 8 // 7, size * 8 // 7)), published.RandomCrop(size), *steps]
    return published.Compose(steps)(to_pil(image))


KINDS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Draws], Tensor]]] = {
    "augmix": (augmix_by_hand, lambda x, draws: AugMix(draws)(x, COUNT)[:, 0]),
    "strong, cropped": (lambda x: moco_by_hand(x, True), lambda x, draws: many(MocoViews(draws, crop=True).strong, x)),
    "strong": (lambda x: moco_by_hand(x, False), lambda x, draws: many(MocoViews(draws, crop=False).strong, x)),
    "weak, cropped": (lambda x: weak_by_hand(x, True), lambda x, draws: many(MocoViews(draws, crop=True).weak, x)),
    "weak": (lambda x: weak_by_hand(x, False), lambda x, draws: many(MocoViews(draws, crop=False).weak, x)),
}


def many(draw: Callable[[Tensor], Tensor], image: Tensor) -> Tensor:
    """Views of one image, as if it were many."""
    return draw(image.expand(COUNT, -1, -1, -1))


@pytest.mark.parametrize("kind", KINDS)
def test_views_have_the_published_distribution(kind: str) -> None:
    """Light, contrast, colour, place, mirroring and roughness: means and spreads of one image's views agree."""
    image = pictures(1, size=28)
    by_hand, ours = KINDS[kind]
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0), random.seed(0), np.random.seed(0)
        theirs = torch.stack([by_hand(image[0]) for _ in range(COUNT)])
    random.setstate(states[0]), np.random.set_state(states[1])
    for one, other in zip(facts(ours(image, Draws(1)), image), facts(theirs, image), strict=True):
        error = math.sqrt(float(one.var() + other.var()) / COUNT)
        assert abs(float(one.mean() - other.mean())) < 4 * error + 5e-4  # Pillow rounds to 256 levels in between
        assert abs(float(one.std() - other.std())) < 0.2 * float(other.std()) + 5e-4


@pytest.mark.parametrize("kind", _augmix.AFFINE)
@pytest.mark.parametrize(("strength", "sign"), [(0.15, 1.0), (0.5, -1.0), (0.999, 1.0)])
def test_moves_are_those_of_pillow(kind: int, strength: float, sign: float) -> None:
    image = pictures(1, size=64)[..., :48, :]
    coefficients = {
        _augmix.SHEAR_X: (1, 0.03 * strength * sign, 0, 0, 1, 0),
        _augmix.SHEAR_Y: (1, 0, 0, 0.03 * strength * sign, 1, 0),
        _augmix.SHIFT_X: (1, 0, int(strength * 64 / 30) * sign, 0, 1, 0),
        _augmix.SHIFT_Y: (1, 0, 0, 0, 1, int(strength * 48 / 30) * sign),
    }
    pil = to_pil(image[0])
    expected = rotated(pil, int(strength * 3) * sign) if kind == _augmix.ROTATE else moved(pil, *coefficients[kind])
    drawn = torch.tensor([kind]), torch.tensor([strength]), torch.tensor([sign])
    found = _augmix.affine((image * 255).round().to(torch.uint8), _augmix.affine_matrices(*drawn, 48, 64))
    difference = (found[0].int() - V.pil_to_tensor(expected).int()).abs()
    assert int(difference.max()) <= 1
    assert float(difference.float().mean()) < 0.05


@pytest.mark.parametrize(("height", "width"), [(64, 64), (40, 64), (30, 90), (90, 30)])
@pytest.mark.parametrize("smallest", [0.08, 0.2])
def test_boxes_are_drawn_as_torchvision_draws_them(height: int, width: int, smallest: float) -> None:
    ours = _crops.draw_boxes(1500, height, width, Draws(0), smallest)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        image = torch.zeros(3, height, width)
        draw = published.RandomResizedCrop.get_params
        theirs = torch.tensor([draw(image, [smallest, 1.0], [3 / 4, 4 / 3]) for _ in range(1500)], dtype=torch.float)
    theirs = theirs[:, [1, 0, 3, 2]]
    torch.testing.assert_close(ours.mean(0), theirs.mean(0), atol=0.03 * max(height, width), rtol=0)
    torch.testing.assert_close(ours.std(0), theirs.std(0), atol=0.03 * max(height, width), rtol=0)
    assert (ours[:, :2] >= 0).all()
    assert (ours[:, 0] + ours[:, 2] <= width).all()
    assert (ours[:, 1] + ours[:, 3] <= height).all()


def test_crops_are_resized_as_by_torchvision() -> None:
    images = pictures(6, size=40)[..., :32, :]
    boxes = _crops.draw_boxes(6, 32, 40, Draws(2), 0.08)
    for image, box, crop in zip(images, boxes, _crops.mirrored_crops(images, boxes, Draws(0)), strict=True):
        left, top, wide, high = (int(number) for number in box)
        expected = V.resized_crop(image, top, left, high, wide, [32, 40], antialias=True)
        nearest = min((crop - way).abs().max() for way in (expected, expected.flip(-1)))
        assert float(nearest) < 1e-4


def test_a_weak_crop_is_cut_from_the_enlarged_image() -> None:
    image = pictures(1, size=28)
    larger = V.resize(image, [32, 32], antialias=True)
    places = [larger[..., y : y + 28, x : x + 28] for y in range(5) for x in range(5)]
    candidates = torch.cat(places + [place.flip(-1) for place in places])
    views = MocoViews(Draws(0), crop=True).weak(image.expand(150, -1, -1, -1))
    nearest = [(candidates - view).abs().amax((1, 2, 3)).min(0) for view in views]
    assert max(float(distance) for distance, _ in nearest) < 1e-4
    assert len({int(which) for _, which in nearest}) > 40  # of 50


def test_blur_is_that_of_pillow() -> None:
    """Up to its rounding; at the edge a little more, because it draws the edge out again between its three boxes."""
    images, sigmas = pictures(6, size=48), torch.tensor([0.1, 0.3, 0.5, 0.9, 1.4, 2.0])
    for image, sigma, found in zip(images, sigmas.tolist(), _moco.blurred(images, sigmas), strict=True):
        pillow = V.to_tensor(to_pil(image).filter(ImageFilter.GaussianBlur(sigma)))
        difference = (found - pillow).abs()
        assert float(difference[:, 6:-6, 6:-6].max()) < 0.015, sigma
        assert float(difference.max()) < 0.04, sigma


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.0])
def test_blur_is_a_gaussian(sigma: float) -> None:
    weights = _moco.gaussians(torch.tensor([sigma]))[0]
    taps = torch.arange(-6, 7)
    assert float(weights.sum()) == pytest.approx(1)
    assert float((weights * taps**2).sum().sqrt()) == pytest.approx(sigma, rel=1e-4)
    assert torch.equal(weights.argsort(descending=True)[:1], torch.tensor([6]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_the_views(kind: str) -> None:
    image, (_, draw) = pictures(1, size=16), KINDS[kind]
    copy = image.clone()
    first = draw(image, Draws(0))
    assert torch.equal(first, draw(image, Draws(0)))
    assert not torch.equal(first, draw(image, Draws(1)))
    assert torch.equal(image, copy)
    assert 0 <= float(first.min()) <= float(first.max()) <= 1 + 1e-6


@pytest.mark.parametrize("kind", [*KINDS, "cotta"])
def test_views_are_drawn_in_full_precision_under_autocast(kind: str) -> None:
    """Places of pixels in bf16 would be off by a pixel, so nothing here may multiply matrices in it."""
    image = pictures(1, size=40)
    _, draw = KINDS.get(kind, (None, lambda x, draws: ColourAndAffine(draws, blur=True)(x)))
    plain = draw(image, Draws(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(draw(image, Draws(0)), plain)


def test_values_beyond_the_range_of_images_do_not_wrap_round() -> None:
    views = AugMix(Draws(0))(torch.cat([torch.full((1, 3, 8, 8), -0.1), torch.full((1, 3, 8, 8), 1.1)]), 40)
    assert float(views[:, 0, 1:].max()) == 0  # but for the red that fills what moves leave empty
    assert float(views[:, 1].mean()) > 0.9


def test_views_of_several_images_keep_their_places() -> None:
    images = torch.stack([torch.full((3, 16, 16), value) for value in (0.2, 0.5, 0.8)])
    views = MocoViews(Draws(0), crop=True)
    torch.testing.assert_close(views.weak(images), images)
    assert AugMix(Draws(0))(images, 5).shape == (5, 3, 3, 16, 16)
