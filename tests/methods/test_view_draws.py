"""The draws behind AugMix and the MoCo views, one at a time, against torchvision's and Pillow's own.

`test_views.py` compares whole views, where one wrong range drowns in all the others. Here a picture is chosen in which
a single draw can be read off, and its distribution is compared with that of the published step.
"""

from __future__ import annotations

import colorsys
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as published
import torchvision.transforms.functional as V
from PIL import Image, ImageFilter, ImageOps
from torch import Tensor
from tta_bench_methods import _augmix, _moco
from tta_bench_methods._augmix import AugMix
from tta_bench_methods._draws import Draws
from tta_bench_methods._moco import MocoViews

from tests.methods.test_augment import pictures
from tests.methods.test_views import either_way, level, moved, rotated, to_pil

COUNT = 2000


@pytest.fixture(autouse=True)
def _own_generators() -> Iterator[None]:
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0), random.seed(0), np.random.seed(0)
        yield
    random.setstate(states[0]), np.random.set_state(states[1])


def assert_alike(ours: Any, theirs: Any, what: str = "") -> None:
    """Two samples of one distribution, by Kolmogorov and Smirnov, with an error of one in 50,000."""
    one, other = np.sort(np.asarray(ours, dtype=float)), np.sort(np.asarray(theirs, dtype=float))
    places = np.concatenate([one, other])
    shares = [np.searchsorted(sample, places, side="right") / len(sample) for sample in (one, other)]
    distance, limit = np.abs(shares[0] - shares[1]).max(), 2.4 * np.sqrt(1 / len(one) + 1 / len(other))
    assert distance < limit, f"{what}: {distance:.3f}, expected less than {limit:.3f}"


def test_samples_of_different_distributions_are_told_apart() -> None:
    draw = np.random.uniform
    assert_alike(draw(0.6, 1.4, COUNT), draw(0.6, 1.4, COUNT))
    with pytest.raises(AssertionError, match="expected less than"):
        assert_alike(draw(0.6, 1.4, COUNT), draw(0.7, 1.3, COUNT))


PILLOW: dict[int, Callable[[Image.Image], Image.Image]] = {
    _augmix.AUTOCONTRAST: ImageOps.autocontrast,
    _augmix.EQUALIZE: ImageOps.equalize,
    _augmix.SOLARIZE: lambda x: ImageOps.solarize(x, 256 - int(level(256))),
    _augmix.POSTERIZE: lambda x: ImageOps.posterize(x, 4 - int(level(4))),
    _augmix.ROTATE: lambda x: rotated(x, either_way(int(level(30)))),
    _augmix.SHEAR_X: lambda x: moved(x, 1, either_way(level(0.3)), 0, 0, 1, 0),
    _augmix.SHEAR_Y: lambda x: moved(x, 1, 0, 0, either_way(level(0.3)), 1, 0),
    _augmix.SHIFT_X: lambda x: moved(x, 1, 0, either_way(int(level(x.size[0] / 3))), 0, 1, 0),
    _augmix.SHIFT_Y: lambda x: moved(x, 1, 0, 0, 0, 1, either_way(int(level(x.size[0] / 3)))),
}


@pytest.mark.parametrize("kind", PILLOW)
def test_each_operation_is_as_strong_as_published(kind: int) -> None:
    """How far an operation takes an image, and to which side; 64 px, so that shifts of 0, 1 and 2 px occur."""
    ramp = torch.arange(64).repeat(3, 64, 1) * 4 + 3  # up to 255: solarising starts at 230
    image = (pictures(1, size=64)[0] * 200 + 20).to(torch.uint8)
    image[:, :32] = ramp[:, :32].to(torch.uint8)
    copies = image.repeat(COUNT, 1, 1, 1)
    AugMix(Draws(0))._apply(copies, torch.full((COUNT,), kind))
    theirs = torch.stack([V.pil_to_tensor(PILLOW[kind](V.to_pil_image(image))) for _ in range(COUNT)])
    for name, found in {"size": lambda x: x.abs(), "sign": lambda x: x}.items():
        ours_moved, theirs_moved = ((x.float() - image) for x in (copies, theirs))
        assert_alike(*(found(x).mean((1, 2, 3)).div(0.5).round() for x in (ours_moved, theirs_moved)), name)


def test_chains_have_the_published_number_and_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Tensor] = []
    monkeypatch.setattr(AugMix, "_apply", lambda self, copies, kinds: places.append(kinds))
    monkeypatch.setattr(_augmix, "PIECE", COUNT)
    AugMix(Draws(0))(torch.zeros(1, 3, 8, 8), COUNT)
    chains = torch.stack(places)
    assert chains.shape == (3, 3 * COUNT)
    assert_even((chains >= 0).sum(0).tolist(), [1, 2, 3])
    assert_even(chains[chains >= 0].tolist(), range(9))


def assert_even(found: list[int], expected: Any) -> None:
    """Each of the expected values is about as frequent as the others: within five standard deviations."""
    counts, values = Counter(found), list(expected)
    assert set(counts) == set(values)
    share = 1 / len(values)
    spread = (len(found) * share * (1 - share)) ** 0.5
    assert all(abs(counts[value] - len(found) * share) < 5 * spread for value in values), counts


def test_chains_are_mixed_with_the_published_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chain paints a channel of a black image white, so a view's channels are the weights."""

    def paint(self: AugMix, copies: Tensor, kinds: Tensor) -> None:
        for channel, chain in enumerate(copies.view(3, -1, *copies.shape[1:])):
            chain[:, channel] = 255

    monkeypatch.setattr(AugMix, "_apply", paint)
    views = AugMix(Draws(0))(torch.zeros(1, 3, 4, 4), COUNT)[:, 0, :, 0, 0]
    shares = views.sum(1)
    assert_alike(shares, 1 - np.random.beta(1, 1, COUNT), "share of the crop")
    dirichlet = np.random.dirichlet([1, 1, 1], COUNT)
    for channel in range(3):
        assert_alike(views[:, channel] / shares, dirichlet[:, channel], f"weight of chain {channel}")


@pytest.mark.parametrize(("kind", "smallest"), [("augmix", 0.08), ("strong", 0.2)])
def test_crops_are_as_large_as_published(kind: str, smallest: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an image that rises to the right and downwards, the view tells how wide, how high and where the crop was."""
    size = 64
    rise = torch.linspace(0, 1, size)
    image = torch.stack([rise.expand(size, size), rise[:, None].expand(size, size), torch.zeros(size, size)])
    monkeypatch.setattr(AugMix, "_apply", lambda self, copies, kinds: None)
    for chance in ("JITTER", "GREYED", "BLURRED"):
        monkeypatch.setattr(_moco, chance, 0.0)
    if kind == "augmix":
        ours = AugMix(Draws(0))(image[None], COUNT)[:, 0]
    else:
        ours = MocoViews(Draws(0), crop=True).strong(image.expand(COUNT, -1, -1, -1))
    draw = published.Compose([published.RandomResizedCrop(size, (smallest, 1.0)), published.RandomHorizontalFlip()])
    theirs = torch.stack([draw(image) for _ in range(COUNT)])
    for one, other in zip(seen_of(ours), seen_of(theirs), strict=True):
        assert_alike(one.mul(63).round(), other.mul(63).round())


def seen_of(views: Tensor) -> list[Tensor]:
    """Left edge, right edge (they change places when mirrored), top and bottom of the part that a view shows."""
    return [views[:, 0, 0, 0], views[:, 0, 0, -1], views[:, 1, 0, 0], views[:, 1, -1, 0]]


def test_colours_are_drawn_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pixels of one hue, one lighter than the other: hue, saturation, light and contrast can be read off."""
    monkeypatch.setattr(_moco, "BLURRED", 0.0)
    image = torch.tensor([[0.36, 0.24], [0.24, 0.16], [0.18, 0.12]]).view(3, 1, 2)
    count = 3 * COUNT  # four draws change the same two pixels
    ours = MocoViews(Draws(0), crop=False).strong(image.expand(count, -1, -1, -1))
    jitter = published.RandomApply([published.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    draw = published.Compose([jitter, published.RandomGrayscale(p=0.2), published.RandomHorizontalFlip()])
    theirs = torch.stack([draw(image) for _ in range(count)])
    for name, one, other in zip(
        ("hue", "saturation", "light", "contrast"), colours(ours), colours(theirs), strict=True
    ):
        assert_alike(one, other, name)


def colours(views: Tensor) -> list[list[float]]:
    """Hue around that of the image; chroma, which contrast scales as it does light; light; contrast itself."""
    hsv = [colorsys.rgb_to_hsv(*view[:, 0, 0].tolist()) for view in views]
    luma = V.rgb_to_grayscale(views)[:, 0, 0]
    hues = [round((hue + 0.4) % 1, 4) if saturation > 1e-4 else -1 for hue, saturation, _ in hsv]
    chroma = (views.amax(1) - views.amin(1))[:, 0].amax(1)
    saturations = (chroma / (luma.amax(1) - luma.amin(1))).mul(1e3).round()
    contrast = (luma.amax(1) / luma.amin(1)).mul(1e4).round()
    return [hues, saturations.tolist(), luma.mean(1).mul(1e4).round().tolist(), contrast.tolist()]


def test_blur_is_drawn_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """How much is left of a white dot tells whether an image was blurred, and how much."""
    for chance in ("JITTER", "GREYED"):
        monkeypatch.setattr(_moco, chance, 0.0)
    dot = torch.zeros(3, 15, 15)
    dot[:, 7, 7] = 1
    ours = MocoViews(Draws(0), crop=False).strong(dot.expand(COUNT, -1, -1, -1))[:, 0, 7, 7]
    blur = published.Lambda(lambda x: x.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2))))
    draw = published.Compose([published.RandomApply([blur], p=0.5), published.ToTensor()])
    theirs = torch.stack([draw(to_pil(dot)) for _ in range(COUNT)])[:, 0, 7, 7]
    assert_alike(*(left.mul(51).round() for left in (ours, theirs)))
