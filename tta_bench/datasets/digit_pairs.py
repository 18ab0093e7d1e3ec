"""Drawings of two handwritten digits side by side: 100 classes, and as many images as a stream needs.

The digits are scikit-learn's 1,797 real ones, which come inside its wheel. The source model sees drawings of 1,300
of them; streams are drawn from the other 497. Each drawing has its own digits, sizes, slants, places and tones.

Drawing number 17 of a set is the same however many are drawn, one by one or all at once, and on every machine: it
takes its random numbers from its own name, and only operations that IEEE 754 defines to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.families import HELD_OUT
from tta_bench.data.images import ArrayImages
from tta_bench.data.seeding import permutation, seed_of

HEIGHT, WIDTH = 16, 32
NUM_CLASSES = 100
TRAIN_DIGITS = 1300
SOURCE_IMAGES = 1024  # clean drawings for methods that use source data before the stream

Split = Literal["train", "test"]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

# A digit's height in pixels, its slant, and how far its middle moves; the tangent of half its turn is below 15°'s.
SIZE, SHEAR, SHIFT, HALF_TURN = (10.5, 13.0), (-0.2, 0.2), (-1.5, 1.5), (-0.13, 0.13)
STROKE = (0.40, 0.62)  # where ink of one half goes: a finer or a bolder pen
# Grey paper and lighter ink, as in digits-c: the published strengths are made for photographs, and would have little
# effect on white and black.
PAPER, INK = (0.30, 0.40), (0.25, 0.40)

_FINE = 32  # pixels a side of a digit before it is drawn
_PER_DIGIT, _PER_IMAGE = 7, 16  # random numbers
_AT_ONCE = 64  # drawings, so that intermediate results stay in the processor's cache


class Drawings:
    """The first `count` drawings of a named set, drawn when they are read."""

    in_memory = True  # a worker process would cost more than drawing does

    def __init__(self, name: str, split: Split, count: int) -> None:
        self.name, self._split = name, split
        self.ids: Sequence[str] = _Ids(name, count)
        self.labels: NDArray[np.int64] = self._labels(np.arange(count))

    def read(self, indices: NDArray[np.int64]) -> Bytes:
        ink, _ = _digits(self._split)
        draw, (left, right) = self._draw(np.asarray(indices))
        pages = np.empty((len(draw), HEIGHT, WIDTH), np.uint8)
        for start in range(0, len(draw), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            halves = [_written(ink, left[some], draw[some, :7]), _written(ink, right[some], draw[some, 7:14])]
            paper, contrast = _between(draw[some, 14], PAPER), _between(draw[some, 15], INK)
            pages[some] = np.rint(255 * (paper + contrast * np.concatenate(halves, axis=2)))
        return np.repeat(pages[:, None], 3, axis=1)

    def _labels(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        _, classes = _digits(self._split)
        _, (left, right) = self._draw(indices)
        return 10 * classes[left] + classes[right]

    def _draw(self, indices: NDArray[np.int64]) -> tuple[Floats, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Each drawing's random numbers, and which two digits it shows."""
        draw = _uniform(seed_of("digit-pairs", self.name), indices, _PER_IMAGE)
        count = len(_digits(self._split)[1])
        left, right = ((draw[:, first] * count).astype(np.int64) for first in (0, _PER_DIGIT))
        return draw, (left, right)


class _Ids(Sequence[str]):
    """Names of drawings, computed on demand: a training set has hundreds of thousands."""

    def __init__(self, name: str, count: int) -> None:
        self._name, self._count = name, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(self._count))]
        return f"digit-pairs/{self._name}/{range(self._count)[place]:06d}"


def set_of(task: str) -> str:
    """The set of a corruption's drawings: settings are chosen on other drawings than those that tables score."""
    return "tuning" if task in HELD_OUT else "stream"


@lru_cache(maxsize=4)
def clean(name: str, count: int) -> ArrayImages:
    """Drawings of held-out digits, kept: every corruption starts from them."""
    return _kept(Drawings(name, "test", count))


@lru_cache(maxsize=1)
def source_images() -> ArrayImages:
    """Clean drawings of the digits that the source model was trained on."""
    return _kept(Drawings("source", "train", SOURCE_IMAGES))


@lru_cache(maxsize=24)
def corrupted(task: str, severity: int, count: int) -> ArrayImages:
    """A task's drawings under its corruption; kept, because every method and seed reads them again."""
    from tta_bench.corruptions import corrupt_many  # needs Pillow and scipy

    images = clean(set_of(task), count)
    pages = images.read(np.arange(count)).transpose(0, 2, 3, 1)
    # Edition 1: published results were made from these images.
    worse = corrupt_many(pages, task, severity, image_ids=images.ids, scale="small", edition=1)
    return ArrayImages(np.ascontiguousarray(worse.transpose(0, 3, 1, 2)), images.labels, images.ids)


def _kept(drawings: Drawings) -> ArrayImages:
    count = len(drawings.ids)
    return ArrayImages(drawings.read(np.arange(count)), drawings.labels, list(drawings.ids))


@lru_cache(maxsize=2)
def _digits(split: Split) -> tuple[Floats, NDArray[np.int64]]:
    """The ink of a split's digits from 0 to 1 as [N, 35, 35], with empty paper around it, and their classes."""
    from PIL import Image
    from sklearn.datasets import load_digits  # slow to import

    grey, classes = load_digits(return_X_y=True)
    order = permutation(len(grey), "digit-pairs", "split")
    chosen = np.sort(order[:TRAIN_DIGITS] if split == "train" else order[TRAIN_DIGITS:])
    small = np.round(grey[chosen].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    fine = [np.asarray(Image.fromarray(digit).resize((_FINE, _FINE), Image.Resampling.BICUBIC)) for digit in small]
    return np.pad(np.stack(fine) / 255, ((0, 0), (1, 2), (1, 2))), classes[chosen].astype(np.int64)


def _written(ink: Floats, which: NDArray[np.int64], draw: Floats) -> Floats:
    """Some of the digits turned, slanted, scaled, moved and inked: [N, 16, 16]."""
    size, half_turn, shear, down, right, stroke = (
        _between(draw[:, i + 1], limits) for i, limits in enumerate((SIZE, HALF_TURN, SHEAR, SHIFT, SHIFT, STROKE))
    )
    # Sine and cosine by the tangent of half the angle: numpy's own differ in the last bit between machines.
    cos, sin = (1 - half_turn**2) / (1 + half_turn**2), 2 * half_turn / (1 + half_turn**2)
    y = np.arange(HEIGHT)[:, None] + 0.5 - HEIGHT / 2 - down
    x = np.arange(HEIGHT)[None, :] + 0.5 - HEIGHT / 2 - right
    scale = _FINE / size
    rows = scale * (cos * y - sin * x)
    columns = scale * (sin * y + cos * x) + shear * rows
    found = _sample(ink, which, rows + (_FINE / 2 - 0.5), columns + (_FINE / 2 - 0.5))
    # Schlick's bias curve: like a gamma curve, it moves the middle and keeps 0 and 1.
    inked: Floats = found / ((1 / stroke - 2) * (1 - found) + 1)
    return inked


def _sample(ink: Floats, which: NDArray[np.int64], rows: Floats, columns: Floats) -> Floats:
    """Ink at fractional positions of these digits, linearly interpolated; none outside."""
    side = ink.shape[1]
    rows, columns = (np.clip(place + 1, 0, _FINE + 1) for place in (rows, columns))
    top, left = rows.astype(np.int64), columns.astype(np.int64)
    down, right = rows - top, columns - left
    first = (which * side**2)[:, None, None] + top * side + left
    flat = ink.reshape(-1)
    above, below = (
        start + right * (flat.take(place + 1) - start)
        for place in (first, first + side)
        for start in (flat.take(place),)
    )
    between: Floats = above + down * (below - above)
    return between


def _between(draw: Floats, limits: tuple[float, float]) -> Floats:
    """Numbers of [N] spread over a range, as [N, 1, 1]."""
    low, high = limits
    spread: Floats = low + (high - low) * draw
    return spread[:, None, None]


def _uniform(seed: int, indices: NDArray[np.int64], count: int) -> Floats:
    """`count` numbers in [0, 1) for each index: the splitmix64 generator, started at that index."""
    place = indices[:, None].astype(np.uint64) * np.uint64(count) + np.arange(1, count + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):  # overflow is intended: arithmetic modulo 2^64
        z = np.uint64(seed % 2**64) + place * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    share: Floats = (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return share
