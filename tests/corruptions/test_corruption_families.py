"""Each corruption does what its name says, at the published strength."""

from __future__ import annotations

import colorsys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import zoom as scipy_zoom

from tests.support.scenes import Bytes, natural
from tta_bench.corruptions import (
    SEVERITIES,
    Scale,
    blur,
    corrupt,
    digital,
    lens,
    noise,
    weather,
)
from tta_bench.corruptions._fractal import plasma
from tta_bench.corruptions._random import generator
from tta_bench.corruptions._resample import motion_taps, shift_and_add
from tta_bench.corruptions.tables import LARGE, SMALL

SCALES: tuple[Scale, ...] = ("small", "large")


@pytest.fixture(scope="module")
def scene() -> Bytes:
    return natural(224, 224)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("scale", SCALES)
def test_noise_has_the_published_size(severity: int, scale: Scale) -> None:
    rows = {name: row[severity - 1] for name, row in (SMALL if scale == "small" else LARGE).items()}
    grey, rng = np.full((200, 200, 3), 0.5, dtype=np.float32), generator("noise", severity, scale)
    gaussian = noise.gaussian_noise(grey, rows["gaussian_noise"], rng)
    assert gaussian.mean() == pytest.approx(0.5, abs=0.004)
    assert gaussian.std() == pytest.approx(rows["gaussian_noise"][0], rel=0.02)
    speckle = noise.speckle_noise(grey, rows["speckle_noise"], rng)
    assert speckle.std() == pytest.approx(0.5 * rows["speckle_noise"][0], rel=0.02)
    shot = noise.shot_noise(grey, rows["shot_noise"], rng)
    assert shot.mean() == pytest.approx(0.5, rel=0.02)
    assert shot.std() == pytest.approx((0.5 / rows["shot_noise"][0]) ** 0.5, rel=0.02)
    impulse = noise.impulse_noise(grey, rows["impulse_noise"], rng)
    assert np.mean(impulse == 0) == pytest.approx(rows["impulse_noise"][0] / 2, rel=0.1)
    assert np.mean(impulse == 1) == pytest.approx(rows["impulse_noise"][0] / 2, rel=0.1)


def test_noise_of_known_size_reaches_the_user() -> None:
    grey = np.full((200, 200, 3), 128, dtype=np.uint8)
    # 0.08 of 255 levels: the third row of one table, the first of the other.
    for severity, scale in ((3, SCALES[0]), (1, SCALES[1])):
        noisy = corrupt(grey, "gaussian_noise", severity, image_id="a", scale=scale)
        assert noisy.std() == pytest.approx(20.4, rel=0.02)


def test_defocus_spreads_a_point_over_a_disk() -> None:
    point = np.zeros((41, 41, 3), dtype=np.float32)
    point[20, 20] = 1
    spread = blur.defocus_blur(point, (3, 0.1), generator("", 1, ""))[..., 0]
    y, x = np.mgrid[-20:21, -20:21]
    disk = y**2 + x**2 <= 9
    assert spread == pytest.approx(disk / disk.sum(), abs=1e-6)


@pytest.mark.parametrize("reach", [1, 2, 4])
def test_glass_blur_leaves_what_the_pixel_by_pixel_loop_leaves(reach: int) -> None:
    height, width = 20, 26
    inside = (2, height - 2 * reach, width - 2 * reach)
    down, right = generator("glass", 1, "").integers(-reach, reach, size=inside)
    place = np.arange(height * width).reshape(height, width)
    for y in range(height - reach, reach, -1):
        for x in range(width - reach, reach, -1):
            i, j = y - reach - 1, x - reach - 1
            place[y, x] = place[y + down[i, j], x + right[i, j]]
    assert np.array_equal(blur._copied_from(height, width, reach, generator("glass", 1, "")), place.ravel())


def test_motion_blur_trails_one_way_along_one_line() -> None:
    line = np.zeros((1, 64, 3), dtype=np.float32)
    line[:, 32] = 1
    trail = shift_and_add(line, motion_taps(10, 3, 0.0), "edge")[0, :, 0]
    assert trail.sum() == pytest.approx(1, abs=1e-3)
    assert trail[33:].max() == 0
    assert trail[31] / trail[32] == pytest.approx(np.exp(-1 / 18), rel=1e-4)
    assert trail[32] > trail[31] > trail[29] > trail[26] > 0


@pytest.mark.parametrize("severity", SEVERITIES)
def test_zoom_blur_averages_the_magnified_images(severity: int, scene: Bytes) -> None:
    side = 120
    image = scene[:side, :side]
    stop, step = LARGE["zoom_blur"][severity - 1]
    layers = [image.astype(float)]
    for factor in np.arange(1, stop, step):
        cut = int(np.ceil(side / factor))
        start = (side - cut) // 2
        middle = layers[0][start : start + cut, start : start + cut]
        grown = scipy_zoom(middle, (factor, factor, 1), order=1)
        trim = (grown.shape[0] - side) // 2
        layers.append(grown[trim : trim + side, trim : trim + side])
    result = corrupt(image, "zoom_blur", severity, image_id="a")
    assert np.abs(result - np.mean(layers, axis=0)).max() < 1.1


def test_snow_never_darkens(scene: Bytes) -> None:
    dark = scene // 3
    for severity in SEVERITIES:
        assert (corrupt(dark, "snow", severity, image_id="a") >= dark).all()


def test_frost_adds_ice_of_the_published_weight() -> None:
    black = np.zeros((224, 224, 3), dtype=np.float32)
    draws = [generator("frost", 1, str(i)) for i in range(60)]
    ice = [weather.frost(black, (0, 1, 1), rng).mean(axis=(0, 1)) for rng in draws]
    # The five photographs of the release have these colours on average.
    assert np.mean(ice, axis=0) == pytest.approx([0.572, 0.656, 0.702], abs=0.06)
    half = weather.frost(black, (0, 0.5, 1), generator("frost", 1, "0"))
    assert half.mean(axis=(0, 1)) == pytest.approx(ice[0] / 2, rel=1e-4)


def test_fog_is_a_seamless_cloud_that_decay_makes_smoother() -> None:
    rough, smooth = (plasma(64, decay, generator("fog", 1, "a")) for decay in (1.4, 3))
    for cloud in (rough, smooth):
        assert (cloud.min(), cloud.max()) == (0, 1)
        seam = np.abs(cloud[0] - cloud[-1]).mean()
        assert seam < 3 * np.abs(np.diff(cloud, axis=0)).mean()
    assert np.abs(np.diff(smooth)).mean() < 0.5 * np.abs(np.diff(rough)).mean()


def test_fog_keeps_the_range_of_the_scene() -> None:
    dim = natural(64, 64) // 2
    assert corrupt(dim, "fog", 5, image_id="a").max() <= dim.max()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_contrast_brightness_and_saturation_have_known_values(severity: int) -> None:
    image = natural(16, 16)
    image[0, :2] = [[0], [200]]  # black and grey have no hue, a special case
    (share,), (rise,) = SMALL["contrast"][severity - 1], SMALL["brightness"][severity - 1]
    factor, offset = SMALL["saturate"][severity - 1]
    mean = image.mean(axis=(0, 1))
    flat = corrupt(image, "contrast", severity, image_id="a")
    assert np.abs(flat - (mean + share * (image - mean))).max() <= 0.51
    bright = corrupt(image, "brightness", severity, image_id="a")
    vivid = corrupt(image, "saturate", severity, image_id="a")
    for y, x in np.ndindex(16, 16):
        hue, saturation, value = colorsys.rgb_to_hsv(*(image[y, x] / 255).tolist())
        lit = colorsys.hsv_to_rgb(hue, saturation, min(1.0, value + rise))
        assert np.abs(bright[y, x] - 255 * np.array(lit)).max() <= 0.51
        strong = colorsys.hsv_to_rgb(hue, min(1.0, saturation * factor + offset), value)
        assert np.abs(vivid[y, x] - 255 * np.array(strong)).max() <= 0.51


@pytest.mark.parametrize("severity", SEVERITIES)
def test_jpeg_and_pixelate_are_pillows_own(severity: int, scene: Bytes) -> None:
    file = BytesIO()
    Image.fromarray(scene).save(file, "JPEG", quality=(25, 18, 15, 10, 7)[severity - 1])
    compressed = corrupt(scene, "jpeg_compression", severity, image_id="a")
    assert np.array_equal(compressed, np.asarray(Image.open(file)))
    side = int(224 * (0.6, 0.5, 0.4, 0.3, 0.25)[severity - 1])
    coarse = Image.fromarray(scene).resize((side, side), Image.Resampling.BOX)
    expected = np.asarray(coarse.resize((224, 224), Image.Resampling.BOX))
    assert np.array_equal(corrupt(scene, "pixelate", severity, image_id="a"), expected)


def test_elastic_transform_moves_pixels_by_the_given_share_of_the_side() -> None:
    ramp = np.tile(np.arange(64, dtype=np.float32)[:, None, None], (1, 64, 3))
    still = digital.elastic_transform(ramp, (0, 0, 0), generator("", 1, ""))
    assert still == pytest.approx(ramp, abs=1e-3)
    moved = digital.elastic_transform(ramp, (0.1, 0.02, 0), generator("", 1, ""))[16:48]
    # Uniform noise (deviation 1/√3) smoothed by sigma 1.28 px keeps 1 / (2√π·1.28) of it; times 6.4 px.
    expected = 6.4 / 3**0.5 / (2 * np.pi**0.5 * 1.28)
    shift = moved[..., 0] - ramp[16:48, :, 0]
    assert shift.std() == pytest.approx(expected, rel=0.15)
    # Neighbours in a field smoothed by sigma correlate by exp(-1 / 4σ²).
    alike = np.corrcoef(shift[:, :-1].ravel(), shift[:, 1:].ravel())[0, 1]
    assert alike == pytest.approx(np.exp(-1 / (4 * 1.28**2)), abs=0.05)


def test_spatter_is_water_first_and_mud_later() -> None:
    grey = np.full((224, 224, 3), 120, dtype=np.uint8)
    water, mud = (corrupt(grey, "spatter", severity, image_id="a").astype(int) - 120 for severity in (2, 5))
    assert water.min() == 0
    assert water[..., 2].max() > water[..., 0].max() > 0
    assert mud.max() == 0
    assert not lens._sheen(np.zeros((9, 9), dtype=bool)).any()
    assert mud.reshape(-1, 3).min(axis=0).tolist() == [63 - 120, 42 - 120, 20 - 120]
