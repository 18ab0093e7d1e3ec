"""Sets of images: what a task reads from. Knows no order and no method."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.seeding import permutation
from tta_bench.errors import UserError

LOOKED_AT = 8  # images of a task: a gradual run of ImageNet-C looks at a thousand


class ImageSet(Protocol):
    """Labelled images that can be read in any order."""

    @property
    def ids(self) -> Sequence[str]:
        """A name for each image that is the same on every machine."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each image."""

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The images at these positions as [N, 3, H, W]."""


def fingerprint(images: ImageSet) -> str:
    """A digest of all labels, and of the pixels of a few images as a model would see them.

    Trees of the same names may differ: one downloaded, one made; or two decoders may; or a list of labels was mended.
    Empty if one of the few cannot be read: whoever reads it next will say so.
    """
    few = permutation(len(images.ids), "fingerprint")[:LOOKED_AT]
    raw: ImageSet = getattr(images, "decoded_from", images)  # a cache need not be made for this
    try:
        pixels = np.ascontiguousarray(raw.read(few)).tobytes()
    except UserError:
        return ""
    return hashlib.sha256(pixels + np.asarray(images.labels, np.int64).tobytes()).hexdigest()[:16]


def sample_files(images: ImageSet) -> list[Path]:
    """The files behind the few images that a fingerprint looks at; none for images that are in no file."""
    found: list[Path] = []
    for part in getattr(images, "sets", [images]):
        raw = getattr(part, "decoded_from", part)
        files: Sequence[Path] = getattr(raw, "files", ())
        few = permutation(len(part.ids), "fingerprint")[:LOOKED_AT]
        found += [files[i] for i in few] if len(files) == len(part.ids) else files
    return found


class ArrayImages:
    """An image set that is held in memory."""

    in_memory = True

    def __init__(self, images: NDArray[np.uint8], labels: NDArray[np.int64], ids: Sequence[str]) -> None:
        self._images = images
        self.labels = labels
        self.ids = ids

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        return self._images[indices]


class Joined:
    """Several image sets seen as one, each image's id led by the name of its set."""

    def __init__(self, named: Sequence[tuple[str, ImageSet]]) -> None:
        self.sets = [images for _, images in named]
        self.ids = [f"{name}/{image_id}" for name, images in named for image_id in images.ids]
        self.labels: NDArray[np.int64] = np.concatenate([images.labels for images in self.sets])
        self.ends = np.cumsum([len(images.ids) for images in self.sets])
        self.in_memory = all(getattr(images, "in_memory", False) for images in self.sets)

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        which = np.searchsorted(self.ends, indices, side="right")
        starts = self.ends - [len(images.ids) for images in self.sets]
        slots: list[NDArray[np.uint8] | None] = [None] * len(indices)
        for chosen in np.unique(which):
            places = np.flatnonzero(which == chosen)
            pixels = self.sets[chosen].read(indices[places] - starts[chosen])
            for place, image in zip(places, pixels, strict=True):
                slots[place] = image
        return np.stack([image for image in slots if image is not None])
