"""Many images corrupted at once are what each becomes alone, to the last bit."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.support.scenes import Bytes, natural
from tta_bench.corruptions import CORRUPTIONS, HELD_OUT, SEVERITIES, Scale, corrupt, corrupt_many
from tta_bench.datasets import digit_pairs
from tta_bench.errors import UserError

ALL = CORRUPTIONS + HELD_OUT
COUNT = 70  # more than go at once


def photographs() -> Bytes:
    """Coloured crops, wider than high, none like another."""
    scene = natural(120, 160)
    return np.stack([scene[i : i + 20, 2 * i % 100 : 2 * i % 100 + 28] for i in range(COUNT)])


def drawings() -> Bytes:
    return digit_pairs.Drawings("many", "test", COUNT).read(np.arange(COUNT)).transpose(0, 2, 3, 1)


@pytest.mark.parametrize("name", ALL)
def test_at_once_is_one_by_one(name: str) -> None:
    ids = [f"image {i}" for i in range(COUNT)]
    small: list[tuple[Scale, int]] = [("small", severity) for severity in SEVERITIES]
    for images, strengths in ((photographs(), [("large", 1), ("large", 5), ("small", 3)]), (drawings(), small)):
        before = images.copy()
        for scale, severity in strengths:
            many = corrupt_many(images, name, severity, image_ids=ids, scale=scale)
            alone = [
                corrupt(image, name, severity, image_id=image_id, scale=scale)
                for image, image_id in zip(images, ids, strict=True)
            ]
            assert np.array_equal(many, np.stack(alone))
        assert np.array_equal(images, before)


def test_at_once_is_faster_on_small_images() -> None:
    """A ratio of times taken in turn: 7 here, and 2 is the least that would be worth a second way."""
    images, ids = drawings(), [str(i) for i in range(COUNT)]
    many, alone = 0.0, 0.0
    for _ in range(3):
        start = time.process_time()
        corrupt_many(images, "zoom_blur", 5, image_ids=ids, scale="small")
        middle = time.process_time()
        for image, image_id in zip(images, ids, strict=True):
            corrupt(image, "zoom_blur", 5, image_id=image_id, scale="small")
        many, alone = many + middle - start, alone + time.process_time() - middle
    assert alone > 2 * many


def test_no_images_are_no_images() -> None:
    none = np.zeros((0, 16, 32, 3), np.uint8)
    for name in ("fog", "jpeg_compression"):
        assert corrupt_many(none, name, 5, image_ids=[]).shape == none.shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "fogg"}, "unknown corruption 'fogg'; did you mean 'fog'?"),
        ({"severity": 6}, "severity of fog: expected a whole number from 1 to 5, got 6"),
        ({"image_ids": ["a"]}, "images to corrupt: 2 images, but 1 ids"),
        ({"images": np.zeros((2, 16, 32), np.uint8)}, "got [16, 32]"),
        ({"images": np.zeros((2, 16, 32, 3))}, "expected an array of uint8, got float64"),
    ],
)
@pytest.mark.parametrize("name", ["fog", "jpeg_compression"])
def test_errors_are_those_of_one_image(name: str, change: dict[str, object], message: str) -> None:
    usual = {"images": np.zeros((2, 16, 32, 3), np.uint8), "name": name, "severity": 1, "image_ids": ["a", "b"]}
    with pytest.raises(UserError) as caught:
        corrupt_many(**{**usual, **change})  # type: ignore[arg-type]
    assert message.replace("of fog", f"of {usual['name']}") in str(caught.value)
