"""The embedded data: scikit-learn's 1,797 real handwritten digits as 32x32 RGB, clean or corrupted.

They come inside scikit-learn's wheel, so a first benchmark needs no download.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.images import ArrayImages
from tta_bench.data.seeding import permutation, seed_of

SIZE = 32
DIGIT = 20
# Each image has its own grey paper and a lighter ink. The published strengths are made for photographs, which vary
# like this: on white and black they would have little effect.
PAPER, CONTRAST = (0.15, 0.55), (0.08, 0.25)
TRAIN_IMAGES = 900  # the other 897 are the test split
STREAM_IMAGES = 640  # of these are corrupted: 20 batches of 32, so that all methods run in minutes


@lru_cache(maxsize=2)
def clean(split: str) -> ArrayImages:
    """The clean images of one split, "train" or "test"; the split is the same everywhere."""
    from sklearn.datasets import load_digits  # slow to import

    grey, labels = load_digits(return_X_y=True)
    order = permutation(len(grey), "digits", "split")
    chosen = np.sort(order[:TRAIN_IMAGES] if split == "train" else order[TRAIN_IMAGES:])
    ids = [f"digits/{i:04d}" for i in chosen]
    images = np.stack([_draw(grey[i].reshape(8, 8), name) for i, name in zip(chosen, ids, strict=True)])
    return ArrayImages(images, labels[chosen].astype(np.int64), ids)


@lru_cache(maxsize=20)
def corrupted(corruption: str, severity: int) -> ArrayImages:
    """The test split under one corruption; kept, because every method and seed reads it again."""
    from tta_bench.corruptions import corrupt_many

    test = stream_images()
    images = test.read(np.arange(len(test.ids))).transpose(0, 2, 3, 1)
    # Edition 1: published results and the board's entries were made from these images.
    worse = corrupt_many(images, corruption, severity, image_ids=test.ids, scale="small", edition=1)
    return ArrayImages(worse.transpose(0, 3, 1, 2), test.labels, test.ids)


def stream_images() -> ArrayImages:
    """The clean images of the streams: the first ones of the test split."""
    test = clean("test")
    kept = np.arange(STREAM_IMAGES)
    return ArrayImages(test.read(kept), test.labels[kept], list(test.ids[:STREAM_IMAGES]))


def _draw(grey: NDArray[np.float64], name: str) -> NDArray[np.uint8]:
    """An 8x8 image of ink in 0..16 as [3, 32, 32] bytes: a digit in the middle of grey paper."""
    from PIL import Image

    rng = np.random.Generator(np.random.PCG64(seed_of("digits", "tone", name)))
    paper, contrast = rng.uniform(*PAPER), rng.uniform(*CONTRAST)
    strokes = Image.fromarray(np.round(grey * (255 / 16)).astype(np.uint8))
    ink = np.zeros((SIZE, SIZE))
    border = (SIZE - DIGIT) // 2
    inside = slice(border, border + DIGIT)
    ink[inside, inside] = np.asarray(strokes.resize((DIGIT, DIGIT), Image.Resampling.BICUBIC)) / 255
    page = np.round(255 * (paper + contrast * ink)).astype(np.uint8)
    return np.repeat(page[None], 3, axis=0)
