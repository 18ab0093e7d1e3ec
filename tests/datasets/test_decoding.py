"""From a file to the bytes a model takes: transforms, unusual images, bad files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.transforms as T
from PIL import Image

from tests.support import trees
from tta_bench.datasets.files import decode
from tta_bench.datasets.transform import Transform, photograph
from tta_bench.errors import UserError


@pytest.mark.parametrize("size", [(300, 400), (401, 299), (100, 50), (1, 1), (224, 224), (33, 257)])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_transforms_are_torchvisions(size: tuple[int, int], interpolation: str) -> None:
    picture = trees.picture(1, size)
    mode = T.InterpolationMode(interpolation)
    theirs = T.Compose([T.Resize(256, mode), T.CenterCrop(224)])
    assert np.array_equal(photograph(224, interpolation)(picture), np.asarray(theirs(picture)).transpose(2, 0, 1))
    squashed = T.Compose([T.Resize((256, 256), mode), T.CenterCrop(224)])
    ours = Transform(256, 224, squash=True, interpolation=interpolation)
    assert np.array_equal(ours(picture), np.asarray(squashed(picture)).transpose(2, 0, 1))


def test_the_middle_is_cut_out() -> None:
    columns = np.repeat(np.arange(8, dtype=np.uint8)[None, :, None], 4, axis=0).repeat(3, axis=2)
    found = Transform(4, 4)(Image.fromarray(columns))
    assert found[0].tolist() == [[2, 3, 4, 5]] * 4


def test_a_model_of_another_size_gets_its_size(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path)
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    larger = data.sized(384, "bicubic")
    assert data.transform == Transform(224, 224)
    assert larger.transform == Transform(384, 384, interpolation="bicubic")
    assert larger.open("fog").read(np.array([0])).shape == (1, 3, 384, 384)
    assert photograph(384).resize == 439
    assert photograph(224).describe() == {"resize": 256, "crop": 224, "squash": False, "interpolation": "bilinear"}


@pytest.mark.parametrize("wrong", [{"resize": 10, "crop": 20}, {"resize": 10, "crop": 10, "interpolation": "cubic"}])
def test_impossible_transforms_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="cannot crop 20 pixels from|interpolation: expected one of"):
        Transform(**wrong)


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA", "1", "LA", "I;16"])
def test_unusual_images_become_rgb(mode: str) -> None:
    file = io.BytesIO()
    grey = trees.picture(3).convert("L")
    if mode == "I;16":
        Image.fromarray(np.asarray(grey).astype(np.uint16)).save(file, "PNG")
    elif mode == "P":
        grey.convert("P").save(file, "PNG", transparency=bytes([0, 128, 255]))
    else:
        grey.convert(mode).save(file, "TIFF" if mode == "CMYK" else "PNG")
    file.seek(0)
    assert decode(file, "x", photograph(224)).shape == (3, 224, 224)


def test_a_cmyk_jpeg_and_a_single_pixel(tmp_path: Path) -> None:
    trees.picture(3).convert("CMYK").save(tmp_path / "cmyk.jpg")
    colour = Image.new("RGB", (1, 1), (10, 200, 30))
    colour.save(tmp_path / "pixel.png")
    assert decode(tmp_path / "cmyk.jpg", "x", photograph(224)).shape == (3, 224, 224)
    assert set(decode(tmp_path / "pixel.png", "x", photograph(224)).reshape(3, -1).T.ravel()) == {10, 200, 30}


@pytest.mark.parametrize("how", ["truncated", "no image", "empty", "a folder", "loop", "dangling"])
def test_a_bad_file_is_named(tmp_path: Path, how: str) -> None:
    home = trees.imagenet_c(tmp_path, classes=1)
    path = home / "fog" / "5" / "n01440764" / "ILSVRC2012_val_00000002.JPEG"
    said = trees.broken(path, how)
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    with pytest.raises(UserError, match=said) as caught:
        data.inspect("fog")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
