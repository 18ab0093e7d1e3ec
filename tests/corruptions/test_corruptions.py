"""Corruptions: the published strengths, and one result per (corruption, severity, id)."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from tests.support.scenes import Bytes, natural
from tta_bench.corruptions import (
    CORRUPTIONS,
    HELD_OUT,
    SEVERITIES,
    Scale,
    corrupt,
)
from tta_bench.corruptions._random import generator
from tta_bench.corruptions.tables import LARGE, SMALL
from tta_bench.errors import UserError

ALL = CORRUPTIONS + HELD_OUT
SCALES: tuple[Scale, ...] = ("small", "large")
WITHOUT_CHANCE = (
    *("defocus_blur", "zoom_blur", "gaussian_blur"),
    *("brightness", "contrast", "saturate", "pixelate", "jpeg_compression"),
)
# Their tables trade one column against another, so that a later severity need not change more pixels.
LEVEL = ("glass_blur", "frost", "fog", "elastic_transform", "spatter", "saturate")
GROWING = [name for name in ALL if name not in LEVEL]


@pytest.fixture(scope="module")
def digits() -> list[Bytes]:
    pages = [Image.fromarray((15 * digit).astype(np.uint8)) for digit in load_digits().images[:16]]
    return [np.asarray(page.resize((32, 32), Image.Resampling.BICUBIC).convert("RGB")) for page in pages]


@pytest.fixture(scope="module")
def scene() -> Bytes:
    return natural(224, 224)


def change(images: list[Bytes], name: str, severity: int) -> float:
    """Mean absolute difference, in grey levels, over the images."""
    corrupted = [corrupt(image, name, severity, image_id=str(i)) for i, image in enumerate(images)]
    return float(np.abs(np.stack(corrupted).astype(float) - np.stack(images)).mean())


def test_names_are_the_published_ones_in_the_published_order() -> None:
    published = (
        "gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow frost "
        "fog brightness contrast elastic_transform pixelate jpeg_compression"
    )
    assert " ".join(CORRUPTIONS) == published
    assert " ".join(HELD_OUT) == "speckle_noise gaussian_blur spatter saturate"
    for table in (SMALL, LARGE):
        assert set(table) == set(ALL)
        assert {len(rows) for rows in table.values()} == {5}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ALL)
def test_every_severity_keeps_the_form_and_changes_the_content(name: str, scale: Scale) -> None:
    image = natural(48, 48)
    before = image.copy()
    for severity in SEVERITIES:
        corrupted = corrupt(image, name, severity, image_id="a", scale=scale)
        assert corrupted.dtype == np.uint8
        assert corrupted.shape == image.shape
        assert not np.array_equal(corrupted, image)
    assert np.array_equal(image, before)


@pytest.mark.parametrize("name", ALL)
def test_same_id_same_result_whatever_happened_before(name: str, digits: list[Bytes]) -> None:
    first = [corrupt(image, name, 3, image_id=str(i)) for i, image in enumerate(digits[:4])]
    np.random.seed(1)
    random.seed(1)
    for i in (2, 0, 3, 1):
        assert np.array_equal(corrupt(digits[i], name, 3, image_id=str(i)), first[i])


@pytest.mark.parametrize("name", ALL)
def test_another_id_is_another_draw(name: str) -> None:
    image = natural(40, 40)
    one, other = (corrupt(image, name, 5, image_id=image_id) for image_id in ("a", "b"))
    assert np.array_equal(one, other) == (name in WITHOUT_CHANCE)


@pytest.mark.parametrize("name", ALL)
def test_global_generators_are_left_alone(name: str, digits: list[Bytes]) -> None:
    before, python_before = np.random.get_state(legacy=False), random.getstate()
    corrupt(digits[0], name, 2, image_id="a")
    after = np.random.get_state(legacy=False)
    assert repr(after) == repr(before)
    assert random.getstate() == python_before


def test_the_draw_depends_on_each_word_of_its_name() -> None:
    words = [("fog", 1, "a"), ("snow", 1, "a"), ("fog", 2, "a"), ("fog", 1, "b")]
    assert len({generator(*word).integers(2**62) for word in words}) == len(words)


def test_another_process_agrees_and_the_import_is_light() -> None:
    script = (
        "import sys, hashlib, numpy as np, tta_bench.corruptions as c\n"
        "assert not {'torch', 'scipy.ndimage'} & set(sys.modules), 'a slow import'\n"
        "image = np.arange(32 * 32 * 3, dtype=np.uint8).reshape(32, 32, 3)\n"
        "names = reversed(c.CORRUPTIONS + c.HELD_OUT)\n"
        "results = [c.corrupt(image, name, 4, image_id='a') for name in names]\n"
        "print(hashlib.sha256(np.stack(results[::-1]).tobytes()).hexdigest())\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    image = np.arange(32 * 32 * 3, dtype=np.uint8).reshape(32, 32, 3)
    here = np.stack([corrupt(image, name, 4, image_id="a") for name in ALL])
    assert run.stdout.strip() == hashlib.sha256(here.tobytes()).hexdigest()


@pytest.mark.parametrize("size", ["digits", "scene"])
@pytest.mark.parametrize("name", GROWING)
def test_a_higher_severity_changes_more(name: str, size: str, digits: list[Bytes], scene: Bytes) -> None:
    images = digits if size == "digits" else [scene] * 3
    strength = [change(images, name, severity) for severity in SEVERITIES]
    # Neighbours may be level (two rows of one table can look alike), but the whole must rise.
    assert all(after > 0.93 * before for before, after in pairwise(strength)), strength
    assert strength[-1] > 1.1 * strength[0]


@pytest.mark.parametrize("name", ["fog", "frost"])
def test_weather_is_thicker_at_the_highest_severity(name: str, digits: list[Bytes]) -> None:
    assert change(digits, name, 5) > 1.3 * change(digits, name, 1)


@pytest.mark.parametrize("shape", [(8, 8), (8, 40), (33, 9), (70, 130), (600, 64)])
@pytest.mark.parametrize("name", ALL)
def test_any_shape_from_eight_pixels_up(name: str, shape: tuple[int, int]) -> None:
    image = natural(*shape)
    for scale in SCALES:
        for severity in (1, 5):
            assert corrupt(image, name, severity, image_id="a", scale=scale).shape == (*shape, 3)


@pytest.mark.parametrize("level", [0, 128, 255])
@pytest.mark.parametrize("name", ALL)
def test_flat_grey_images_are_fine(name: str, level: int) -> None:
    flat = np.full((32, 32, 3), level, dtype=np.uint8)
    for severity in SEVERITIES:
        assert corrupt(flat, name, severity, image_id="a").shape == flat.shape


@pytest.mark.parametrize(("side", "scale"), [(63, "small"), (64, "large")])
def test_auto_takes_the_small_table_below_64_pixels(side: int, scale: Scale) -> None:
    image = natural(side, 80)
    expected = corrupt(image, "contrast", 1, image_id="a", scale=scale)
    assert np.array_equal(corrupt(image, "contrast", 1, image_id="a"), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "motion_blurr"}, "unknown corruption 'motion_blurr'; did you mean 'motion_blur'?"),
        ({"severity": 0}, "severity of fog: expected a whole number from 1 to 5, got 0"),
        ({"severity": 2.5}, "from 1 to 5, got 2.5"),
        ({"scale": "smal"}, "unknown scale 'smal'; did you mean 'small'?"),
        ({"image": np.zeros((32, 32, 3))}, "expected an array of uint8, got float64"),
        ({"image": "cat.png"}, "expected an array of uint8, got str"),
        ({"image": np.zeros((32, 32), np.uint8)}, "at least 8, got [32, 32]"),
        ({"image": np.zeros((32, 32, 1), np.uint8)}, "got [32, 32, 1]"),
        ({"image": np.zeros((7, 32, 3), np.uint8)}, "got [7, 32, 3]"),
    ],
)
def test_errors_say_what_is_wrong_in_one_line(arguments: dict[str, object], message: str) -> None:
    usual = {"image": np.zeros((32, 32, 3), np.uint8), "name": "fog", "severity": 1, "image_id": "a"}
    with pytest.raises(UserError) as caught:
        corrupt(**{**usual, **arguments})  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
