"""Corruptions beside the released ones: computed where `imagecorruptions` is installed, recorded elsewhere."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, map_coordinates

from benchmarks.corruption_reference import (
    COMPARED,
    DRAWS,
    SAME_DRAWS,
    SIDE,
    differences,
    octaves,
    released,
    statistics,
)
from tests.support.checkout import ROOT
from tests.support.scenes import natural
from tta_bench.corruptions import SEVERITIES, _frost, blur, corrupt, corrupt_many, digital
from tta_bench.corruptions._random import generator
from tta_bench.corruptions._resample import add_by_fourier, shift_and_add, to_bytes, to_float
from tta_bench.corruptions.tables import LARGE
from tta_bench.datasets import digits

RECORDED: dict[str, Any] = json.loads((ROOT / "tests/golden/corruptions.json").read_text())
# Share of values that may be more than one grey level off. docs/corruptions.md says why.
DISCLOSED = {f"snow/{severity}": 0.03 for severity in SEVERITIES} | {
    f"spatter/{severity}": 0.3 for severity in (1, 2, 3)
}


@pytest.mark.parametrize("name", SAME_DRAWS)
def test_same_random_numbers_give_the_released_image(name: str) -> None:
    try:
        module = released()
    except ImportError as error:
        pytest.skip(f"needs imagecorruptions, OpenCV and scikit-image: {error}")
    for severity in SEVERITIES:
        found = differences(module, natural(SIDE, SIDE), name, severity)
        assert found["beyond_one_level"] <= DISCLOSED.get(f"{name}/{severity}", 0), (severity, found)


@pytest.mark.parametrize("name", COMPARED)
def test_images_have_the_recorded_statistics(name: str) -> None:
    image = natural(SIDE, SIDE)
    for severity in (1, 5) if name in ("spatter", "zoom_blur") else SEVERITIES:
        images = [corrupt(image, name, severity, image_id=str(i), scale="large") for i in range(DRAWS)]
        ours, theirs = statistics(images), RECORDED["statistics"][f"{name}/{severity}"]
        for key, (mean, error) in ours.items():
            expected, spread = theirs[key]
            # Each side is a mean of a few draws; drawn frost and drops may differ by a twentieth more.
            allowed = 4 * np.hypot(error, spread) + 0.3 + 0.05 * expected
            assert abs(mean - expected) < allowed, (name, severity, key, mean, expected)


def test_the_record_has_the_differences_that_the_docs_disclose() -> None:
    beyond = {key for key, found in RECORDED["differences"].items() if found["beyond_one_level"]}
    assert beyond == set(DISCLOSED)


def test_drawn_frost_has_the_photographs_detail_in_every_octave() -> None:
    for index, photograph in enumerate(RECORDED["frost_octaves"]):
        ratio = np.array(octaves(_frost.sheet(index, 1))) / photograph
        assert ratio.min() > 0.6
        assert ratio.max() < 1.6
        assert 0.75 < ratio[-1] < 1.3
    first = [octaves(_frost.sheet(index, 1, 1))[-1] for index in range(_frost.COUNT)]
    assert np.mean(first) < 0.6 * np.mean([photograph[-1] for photograph in RECORDED["frost_octaves"]])


def test_frost_is_shrunk_by_taking_single_pixels() -> None:
    whole, small = _frost.sheet(3, 1), _frost.sheet(3, 5)
    assert small.shape == (102, 102, 3)
    assert np.array_equal(small[7, 11], whole[37, 57])


@pytest.mark.parametrize("severity", SEVERITIES)
def test_elastic_transform_displaces_as_scipy_reflects(severity: int) -> None:
    image = to_float(natural(SIDE, SIDE))
    strength, smoothness, _ = LARGE["elastic_transform"][severity - 1]
    ours = digital.elastic_transform(image, (strength, smoothness, 0), generator("elastic", 1, "a"))
    rng = generator("elastic", 1, "a")
    rng.uniform(0, 0, size=(3, 2))  # the affine map's corners, which do not move here
    noise = rng.uniform(-1, 1, size=(2, SIDE, SIDE))
    moves = [SIDE * strength * gaussian_filter(n, SIDE * smoothness, mode="reflect", truncate=3) for n in noise]
    places = np.mgrid[:SIDE, :SIDE] + moves
    theirs = np.stack([map_coordinates(image[..., c], places, order=1, mode="reflect") for c in range(3)], axis=-1)
    assert np.abs(ours - theirs).max() * 255 < 0.5
    assert np.abs(places - places.clip(0, SIDE - 1)).max() > 0.5  # some lie past the border


@pytest.mark.parametrize("severity", SEVERITIES)
def test_a_disk_by_fourier_is_the_disk_by_shifts(severity: int) -> None:
    image = to_float(natural(150, SIDE))
    taps = blur._disk(*LARGE["defocus_blur"][severity - 1])
    fast, slow = (to_bytes(add(image, taps, "reflect")) for add in (add_by_fourier, shift_and_add))
    assert np.abs(fast.astype(int) - slow).max() <= 1
    assert (fast != slow).mean() < 1e-3


# Made at commit 32ba71b, from which published results come.
@pytest.mark.parametrize(
    ("name", "digest"),
    [("frost", "0191041422f1"), ("elastic_transform", "ea3cd963b94a"), ("defocus_blur", "7a73dc4045fa")],
)
def test_embedded_images_stay_what_published_results_were_made_from(name: str, digest: str) -> None:
    images = digits.corrupted(name, 5)
    assert hashlib.sha256(images.read(np.arange(len(images.ids))).tobytes()).hexdigest()[:12] == digest


def test_editions_differ_in_frost_and_elastic_transform_alone() -> None:
    image = natural(32, 32)
    for name in (*SAME_DRAWS, "frost", "elastic_transform"):
        one, two = (corrupt(image, name, 5, image_id="a", edition=edition) for edition in (1, 2))
        assert np.array_equal(one, two) == (name not in ("frost", "elastic_transform")), name
        many = corrupt_many(image[None], name, 5, image_ids=["a"], edition=1)
        assert np.array_equal(many[0], one)
