"""Our corruptions beside those of PyPI's `imagecorruptions`, with the same random numbers on both sides.

    pip install imagecorruptions opencv-python-headless scikit-image      # in an environment of their own
    python -m benchmarks.corruption_reference tests/golden/corruptions.json

`imagecorruptions` holds the released functions of ImageNet-C for images of any size. It changed two of them:
elastic_transform has other lengths and no affine map, and pixelate enlarges without averaging. Those two are not
compared here. The JSON keeps what tests need where the package is missing: the differences that were found, statistics
of the reference's images, and the strength of each octave of detail in the photographs of frost.
"""

from __future__ import annotations

import json
import sys
import time
import types
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tests.support.scenes import Bytes, natural
from tta_bench.corruptions import CORRUPTIONS, HELD_OUT, SEVERITIES, corrupt
from tta_bench.corruptions._random import generator

SIDE = 224
DRAWS = 8  # images per family and severity whose statistics are recorded
OTHER_THERE = ("elastic_transform", "pixelate")
COMPARED = [name for name in CORRUPTIONS + HELD_OUT if name not in OTHER_THERE]
# These draw in another order than ours, or from generators of their own: they agree in distribution at best.
OTHER_DRAWS = ("shot_noise", "impulse_noise", "glass_blur", "frost", "fog")
SAME_DRAWS = [name for name in COMPARED if name not in OTHER_DRAWS]
OCTAVES = (1, 2, 4, 8, 16, 32, 64, 112)


class Draws:
    """Stands where the reference looks for `numpy.random`, and draws what our families draw."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.randint, self.poisson = rng.integers, rng.poisson

    def normal(self, loc: float = 0, scale: float = 1, size: Any = None) -> NDArray[np.float64]:
        return loc + scale * self.rng.standard_normal(size, dtype=np.float32).astype(np.float64)

    def uniform(self, low: float, high: float, size: Any = None) -> Any:
        return self.rng.uniform(low, high, size)


def released() -> Any:
    """The functions of `imagecorruptions`, adapted to present versions of what it imports.

    Raises ImportError where it, OpenCV or scikit-image is not installed.
    """
    filters, ndimage = import_module("skimage.filters"), import_module("scipy.ndimage")
    import_module("cv2").setNumThreads(1)

    def gaussian(image: Any, sigma: Any = 1, multichannel: bool = False, **others: Any) -> Any:
        return filters.gaussian(image, sigma, channel_axis=-1 if multichannel else None, **others)

    resources = types.SimpleNamespace(resource_filename=lambda package, path: str(Path(module.__file__).parent / path))
    old: dict[str, Any] = {"scipy.ndimage.interpolation": ndimage, "pkg_resources": resources}
    with mock.patch.dict(sys.modules, old):
        module: Any = import_module("imagecorruptions.corruptions")
    module.gaussian = gaussian
    return module


def by_release(module: Any, image: Bytes, name: str, severity: int, image_id: str) -> NDArray[np.float64]:
    """The released function's image in grey levels, before it is rounded."""
    names = {key: getattr(np, key) for key in dir(np) if not key.startswith("__")}
    numpy = types.SimpleNamespace(
        **names | {"random": Draws(generator(name, severity, image_id)), "float_": np.float64}
    )
    with mock.patch.object(module, "np", numpy):
        return np.asarray(getattr(module, name)(Image.fromarray(image), severity), np.float64)


def differences(module: Any, image: Bytes, name: str, severity: int) -> dict[str, float]:
    """How far ours is from the release's image: the largest gap, and the share of values more than a level off."""
    theirs = by_release(module, image, name, severity, "a")
    ours = corrupt(image, name, severity, image_id="a", scale="large")
    gap = np.abs(ours - theirs)
    return {"largest": round(float(gap.max()), 2), "beyond_one_level": round(float((gap > 1).mean()), 5)}


def statistics(images: list[NDArray[Any]]) -> dict[str, list[float]]:
    """Mean, deviation and fine detail of some images, each with its standard error."""
    found = []
    for image in images:
        levels = np.clip(image.astype(np.float64), 0, 255)
        found.append((levels.mean(), levels.std(), np.abs(np.diff(levels, axis=1)).mean()))
    errors = np.std(found, axis=0) / np.sqrt(len(found))
    means = np.mean(found, axis=0)
    return {
        key: [round(float(mean), 3), round(float(error), 3)]
        for key, mean, error in zip(("mean", "deviation", "detail"), means, errors, strict=True)
    }


def octaves(picture: NDArray[Any]) -> list[float]:
    """Strength of each octave of detail in grey levels, on average over crops; the last is the finest."""
    grey = picture @ np.array([0.299, 0.587, 0.114]) * 255
    window = np.outer(np.hanning(SIDE), np.hanning(SIDE))
    radius = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.fftfreq(SIDE)) * SIDE
    rng, power = np.random.default_rng(0), np.zeros(len(OCTAVES) - 1)
    for _ in range(40):
        top, left = (rng.integers(length - SIDE + 1) for length in grey.shape)
        crop = grey[top : top + SIDE, left : left + SIDE]
        waves = np.abs(np.fft.fft2((crop - crop.mean()) * window)) ** 2
        power += [waves[(radius >= low) & (radius < high)].sum() for low, high in pairwise(OCTAVES)]
    strengths: list[float] = np.sqrt(power / 40 / SIDE**2 / (window**2).sum()).round(2).tolist()
    return strengths


def milliseconds(module: Any, name: str, severity: int, rounds: int = 15) -> tuple[float, float]:
    """CPU time per image of ours and of the release, taken in turn; the least of some rounds."""
    image, ours, theirs = natural(SIDE, SIDE), [], []
    for _ in range(rounds):
        start = time.process_time()
        corrupt(image, name, severity, image_id="a", scale="large")
        middle = time.process_time()
        getattr(module, name)(Image.fromarray(image), severity)
        ours.append(middle - start)
        theirs.append(time.process_time() - middle)
    return 1e3 * min(ours), 1e3 * min(theirs)


def main(out: Path) -> None:
    module, image = released(), natural(SIDE, SIDE)
    ids = [str(i) for i in range(DRAWS)]
    record: dict[str, Any] = {"differences": {}, "statistics": {}}
    for name in COMPARED:
        for severity in SEVERITIES:
            key = f"{name}/{severity}"
            if name in SAME_DRAWS:
                record["differences"][key] = differences(module, image, name, severity)
            theirs = [by_release(module, image, name, severity, i) for i in ids]
            record["statistics"][key] = statistics(theirs)
    pictures = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
    folder = Path(module.__file__).parent / "frost"
    record["frost_octaves"] = [
        octaves(np.asarray(Image.open(folder / picture).convert("RGB")) / 255) for picture in pictures
    ]
    out.write_text(json.dumps(record, indent=1) + "\n")
    for severity in SEVERITIES:
        ours, theirs_ms = milliseconds(module, "defocus_blur", severity)
        print(f"defocus_blur {severity}: {ours:.1f} ms per image, the release {theirs_ms:.1f} ms")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
