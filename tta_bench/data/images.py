"""Image sets: the images of a task, without any order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.seeding import permutation
from tta_bench.errors import UserError

SAMPLE = 8  # images per set in a fingerprint; a gradual run of ImageNet-C reads about a thousand in total


class ImageSet(Protocol):
    """Labelled images that can be read in any order."""

    @property
    def ids(self) -> Sequence[str]:
        """A name for each image, the same on every machine."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each image."""

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The images at these positions as [N, 3, H, W]."""


def fingerprint(images: ImageSet) -> str:
    """A digest of all labels, and of the pixels of a sample as a model sees them.

    Equal ids do not mean equal images: a tree may be downloaded or made here, decoders differ, labels get corrected.
    Empty if the sample cannot be read: the next reader reports the error.
    """
    sample = permutation(len(images.ids), "fingerprint")[:SAMPLE]
    raw: ImageSet = getattr(images, "decoded_from", images)  # do not build a cache just for this
    try:
        pixels = np.ascontiguousarray(raw.read(sample)).tobytes()
    except UserError:
        return ""
    return hashlib.sha256(pixels + np.asarray(images.labels, np.int64).tobytes()).hexdigest()[:16]


def sample_files(images: ImageSet) -> list[Path]:
    """The files behind the images that a fingerprint samples; none for images that are not in files."""
    found: list[Path] = []
    for part in getattr(images, "sets", [images]):
        raw = getattr(part, "decoded_from", part)
        files: Sequence[Path] = getattr(raw, "files", ())
        sample = permutation(len(part.ids), "fingerprint")[:SAMPLE]
        found += [files[i] for i in sample] if len(files) == len(part.ids) else files
    return found


class ArrayImages:
    """An image set in memory."""

    in_memory = True

    def __init__(self, images: NDArray[np.uint8], labels: NDArray[np.int64], ids: Sequence[str]) -> None:
        self._images = images
        self.labels = labels
        self.ids = ids

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        return self._images[indices]


class Joined:
    """Several image sets as one; each id starts with the name of its set."""

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
