"""Images for the scenario `ccc`: clean ones under pairs of corruptions, made when they are read.

    parts = changing_parts(Ccc("hard", 50_000), dataset, data, "digit-pairs-c-5", 0, tasks, data_root)

How strong corruptions are depends on a calibration of Source (walk.py): of the embedded data in calibration/, of other
data in DATA_ROOT/ccc, where `tta-bench calibrate` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.checked import parse, validate
from tta_bench.data.images import ImageSet
from tta_bench.data.seeding import permutation
from tta_bench.datasets import Dataset
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError
from tta_bench.files import read_whole
from tta_bench.streams.ccc.walk import Calibration, Point, strong_enough, walk
from tta_bench.streams.scenarios import Ccc
from tta_bench.streams.stream import Part

Indices = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ChangingImages:
    """Clean images, each at its own point of a walk."""

    clean: ImageSet
    rows: Indices  # the clean image of each
    points: Sequence[Point]
    at: Indices  # the point of each
    view: Transform | None = None  # to the model's input size, after corruption
    _made: dict[int, Bytes] = field(default_factory=dict)  # for clean images in memory: all methods read them

    @cached_property
    def ids(self) -> Sequence[str]:
        return [f"{_name(self.points[at])}/{self.clean.ids[row]}" for at, row in zip(self.at, self.rows, strict=True)]

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        return self.clean.labels[self.rows]

    @property
    def in_memory(self) -> bool:
        return self.view is None and bool(getattr(self.clean, "in_memory", False))

    @cached_property
    def files(self) -> Sequence[Path]:
        """Every file that `read` may open."""
        files: Sequence[Path] = getattr(self.clean, "files", ())
        return list(dict.fromkeys(files[row] for row in self.rows)) if len(files) == len(self.clean.ids) else files

    @property
    def transform(self) -> str:
        """A description of what is done to decoded pixels."""
        return f"{getattr(self.clean, 'transform', '')} corrupted {self.view!r}"

    def read(self, indices: Indices) -> Bytes:
        if not self.in_memory:
            return self._make(np.asarray(indices))
        missing = np.array([i for i in dict.fromkeys(indices.tolist()) if i not in self._made], np.int64)
        if len(missing):
            self._made.update(zip(missing.tolist(), self._make(missing), strict=True))
        return np.stack([self._made[i] for i in indices.tolist()])

    def _make(self, indices: Indices) -> Bytes:
        from tta_bench.corruptions.fractional import corrupt_between  # needs Pillow and scipy

        pixels = self.clean.read(self.rows[indices]).transpose(0, 2, 3, 1)
        for number in np.unique(self.at[indices]):
            places = np.flatnonzero(self.at[indices] == number)
            names = [self.clean.ids[row] for row in self.rows[indices[places]]]
            point = self.points[number]
            images = pixels[places]
            for name, severity in ((point.first, point.first_severity), (point.second, point.second_severity)):
                # Edition 1: the calibrations that ship were measured on it.
                images = corrupt_between(images, name, severity, image_ids=names, edition=1)
            pixels[places] = images
        return self._viewed(pixels)

    def _viewed(self, pixels: Bytes) -> Bytes:
        if self.view is None:
            return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        from PIL import Image

        return np.stack([self.view(Image.fromarray(image)) for image in pixels])


def _name(point: Point) -> str:
    return f"{point.first} {point.first_severity:g} {point.second} {point.second_severity:g}"


def changing_parts(
    scenario: Ccc,
    dataset: Dataset,
    data: Mapping[str, Any],
    suite: str,
    seed: int,
    tasks: Sequence[str],
    root: Path | None,
    view: Transform | None = None,
) -> list[Part]:
    """A part for each task that is strong enough: the images under its corruption and a weaker one.

    `dataset` is made from the suite's `data` block; `view` is the transform to the model's input size.
    """
    found = calibration(data, dataset, suite, root)
    kept = strong_enough(tasks, found, scenario.target)
    clean = clean_images(dataset, tasks[0])
    names = ("stream", suite, *kept, scenario.stream_name, seed)
    points = walk(kept, found, scenario.target, scenario.laps, names)
    if scenario.length < len(points):
        raise UserError(f"--length {scenario.length:,}: this walk has {len(points):,} steps of at least one image each")
    at = np.arange(scenario.length) * len(points) // scenario.length
    passes = range(-(-scenario.length // len(clean.ids)))
    rows = np.concatenate([permutation(len(clean.ids), *names, "pass", number) for number in passes])
    stronger = np.array([kept.index(point.stronger) for point in points])[at]
    places = [np.flatnonzero(stronger == number) for number in range(len(kept))]
    return [
        Part(task, ChangingImages(clean, rows[place].astype(np.int64), points, at[place], view), place)
        for task, place in zip(kept, places, strict=True)
    ]


def inspect(
    scenario: Ccc,
    dataset: Dataset,
    data: Mapping[str, Any],
    suite: str,
    seed: int,
    tasks: Sequence[str],
    root: Path | None,
) -> str:
    """Make an image of each part; returns a summary, or raises UserError."""
    parts = changing_parts(scenario, dataset, data, suite, seed, tasks, root)
    for part in parts:
        part.images.read(np.arange(1))
    by = calibration(data, dataset, suite, root)
    return f"{len(parts)} of {len(tasks)} corruptions, {scenario.length:,} images, calibrated with {by.model}"


def clean_images(dataset: Dataset, task: str) -> ImageSet:
    """The clean images that streams are made of; UserError if there are none."""
    clean = dataset.clean_images(task)
    if clean is None:
        raise UserError("--scenario ccc requires clean images, and this kind of data has none")
    return clean


def calibration(data: Mapping[str, Any], dataset: Dataset, suite: str, root: Path | None) -> Calibration:
    """Source's accuracies on this data; UserError with the command that measures them."""
    file = calibration_file(data, dataset, root)
    if file is None:
        raise UserError(f"--scenario ccc requires a calibration of Source: run `tta-bench calibrate --suite {suite}`")
    try:
        text = read_whole(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from error
    return validate.read(Calibration, parse.from_json(text, str(file)), str(file))


def calibration_file(data: Mapping[str, Any], dataset: Dataset, root: Path | None) -> Path | None:
    """The calibration of this data, that of the package first; None if there is none."""
    name = calibration_name(data, dataset)
    with resources.as_file(resources.files("tta_bench.streams.ccc") / "calibration" / name) as own:
        places = [own, *([root / "ccc" / name] if root else [])]
    return next((file for file in places if file.is_file()), None)


def calibration_name(data: Mapping[str, Any], dataset: Dataset) -> str:
    return f"{data['kind']}-{dataset.num_classes}.json"
