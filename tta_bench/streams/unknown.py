"""Where images of unknown classes come from: noise, another suite, or a folder or array below the data root."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.images import ImageSet
from tta_bench.data.seeding import seed_of
from tta_bench.datasets import Dataset, kind, open_dataset
from tta_bench.datasets.array_files import ArrayFile, map_images
from tta_bench.datasets.cifar_c import CifarC
from tta_bench.datasets.cifar_train_c import CifarTrainC
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.imagenet import ImageNetKind, wnids
from tta_bench.datasets.listing import is_file, is_folder, is_image_name, list_folders
from tta_bench.datasets.tiny_imagenet_c import TinyImageNetC
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError, some
from tta_bench.records.predictions import UNKNOWN
from tta_bench.streams.axes.mixed_in import NOISE, MixedIn
from tta_bench.streams.scenarios import Material
from tta_bench.streams.stream import Part
from tta_bench.suites import suite as suites

LEVELS = 5  # severities in one array of CIFAR-C's layout

Bytes = NDArray[np.uint8]
Shape = tuple[int, int]


def unknown_parts(choice: MixedIn, material: Material, own: Sequence[Part], levels: Sequence[int | None]) -> list[Part]:
    """For each part of a stream a part of unknown classes, under the same name and in the same size.

    `levels` are the severities of a task's parts, in order; None is the suite's own.
    """
    found = []
    for part, level in zip(own, cycle(levels)):  # one level may be that of many parts
        shape = _shape(part.images, material.dataset)
        if choice.data == NOISE:
            images: ImageSet = Noise(choice.wanted(len(part.images.ids)), shape)
        elif choice.data in suites.names():
            images = _of_suite(choice.data, material, part.task, level)
        else:
            images = _on_disk(choice.data, material, part.task, level, shape)
        found.append(Part(part.task, Unlabelled(images, shape)))
    return found


def code_of(choice: MixedIn) -> tuple[str, ...]:
    """Modules whose code determines these images."""
    if choice.data not in suites.names():
        return (__name__,)
    return __name__, kind(str(suites.load(choice.data).data.get("kind"))).code


class Unlabelled:
    """Images as members of no class, resized to one shape where they have another."""

    def __init__(self, images: ImageSet, shape: Shape) -> None:
        self._images, self._shape = images, shape
        self.ids: Sequence[str] = [f"unknown/{name}" for name in images.ids]
        self.labels: NDArray[np.int64] = np.full(len(self.ids), UNKNOWN, np.int64)
        self.in_memory = bool(getattr(images, "in_memory", False))

    @property
    def files(self) -> Sequence[Path]:
        """Every file that `read` may open."""
        return getattr(self._images, "files", ())

    @property
    def transform(self) -> str:
        """What is done to stored pixels, for a cache."""
        return f"{getattr(self._images, 'transform', '')} {self._shape}"

    def read(self, indices: NDArray[np.int64]) -> Bytes:
        from PIL import Image

        pixels = self._images.read(indices)
        if pixels.shape[2:] == self._shape:
            return pixels
        size = self._shape[::-1]  # Pillow's is width and height
        pictures = [Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))) for image in pixels]
        resized = [np.asarray(picture.resize(size, Image.Resampling.BILINEAR)) for picture in pictures]
        return np.ascontiguousarray(np.stack(resized).transpose(0, 3, 1, 2))


class Noise:
    """Images of uniform noise: each byte of a pixel is as likely as the others."""

    in_memory = True

    def __init__(self, count: int, shape: Shape) -> None:
        self._shape = (3, *shape)
        self.ids: Sequence[str] = [f"noise/{number:06d}" for number in range(count)]
        self.labels: NDArray[np.int64] = np.zeros(count, np.int64)

    def read(self, indices: NDArray[np.int64]) -> Bytes:
        return np.stack([self._draw(self.ids[i]) for i in indices])

    def _draw(self, name: str) -> Bytes:
        size = int(np.prod(self._shape))
        words = np.random.PCG64(seed_of(name)).random_raw(-(-size // 8))  # numpy promises these to stay
        return np.asarray(words, "<u8").view(np.uint8)[:size].reshape(self._shape)


def _shape(images: ImageSet, dataset: Dataset) -> Shape:
    """Height and width of images, which are read only if their dataset does not say it."""
    if dataset.transform is not None:
        return dataset.transform.crop, dataset.transform.crop
    raw: ImageSet = getattr(images, "decoded_from", images)
    height, width = raw.read(np.zeros(1, np.int64)).shape[2:]
    return int(height), int(width)


def _of_suite(name: str, material: Material, task: str, level: int | None) -> ImageSet:
    """The images of another suite: those of the same task, or of its only one."""
    other = suites.load(name)
    if task not in other.tasks and len(other.tasks) > 1:
        raise UserError(f"open: data={name}: this suite has no task '{task}' as {material.suite} does")
    dataset = open_dataset(other.data, other.tasks, material.root)
    if _family(dataset) == _family(material.dataset):
        raise UserError(f"open: data={name} shows classes that the model of {material.suite} knows: choose another")
    view = material.dataset.transform
    if view is not None:
        dataset = dataset.sized(view.crop, view.interpolation)
    if level is not None:
        dataset = dataset.at_severity(level)
    return dataset.open(task if task in other.tasks else other.tasks[0])


def _family(dataset: Dataset) -> tuple[object, ...]:
    """Equal for data whose images show the same classes, as far as is known."""
    if isinstance(dataset, ImageNetKind | TinyImageNetC):  # the 200 classes are among the 1,000
        return (ImageNetKind,)
    folder = getattr(dataset, "folder", "")
    if isinstance(dataset, CifarC | CifarTrainC) or folder.startswith("CIFAR-"):  # as CIFAR-10.1
        return CifarC, dataset.model_classes
    return type(dataset), folder


def _on_disk(name: str, material: Material, task: str, level: int | None, shape: Shape) -> ImageSet:
    """The images of DATA_ROOT/<name>: under the task's corruption if there are such, else as they are."""
    severity = level or material.data.get("severity")
    if material.root is None:
        raise UserError(
            f"open: data={name} is neither {NOISE} nor an installed suite: a folder or {name}.npy needs --data-root"
        )
    home = material.root / name
    if any(home in (place, *place.parents) for place in material.dataset.places(task) or ()):
        raise UserError(f"open: data={name} has the images of {material.suite} itself: choose another")
    for file, parts in ((home / f"{task}.npy", LEVELS), (material.root / f"{name}.npy", 1)):
        if is_file(file):
            row = _severity(len(map_images(file)), int(severity or 1) if parts > 1 else 1, parts, file)
            ids = [f"{name}/{file.stem}/{number:06d}" for number in row]
            view = material.dataset.transform or _square(shape)
            return ArrayFile(file, row, ids, np.zeros(len(row), np.int64), None if shape == (32, 32) else view)
    folders = [home / task / str(severity), home / task, home]
    folder = next((place for place in folders if is_folder(place)), None)
    if folder is None:
        raise UserError(
            f"open: data={name}: there is no {home}: expected a folder of images, {name}.npy, {name}/<task>.npy, "
            f"an installed suite or {NOISE}"
        )
    _refuse_known_classes(folder, material.dataset, name)
    names = _images_below(folder)
    if not names:
        raise UserError(f"open: data={name}: {folder} has no images")
    prefix = f"{name}/"
    view = material.dataset.transform or _square(shape)
    return FolderImages(folder, [prefix + one for one in names], np.zeros(len(names), np.int64), view, prefix)


def _severity(rows: int, severity: int, parts: int, file: Path) -> NDArray[np.int64]:
    """The rows of one severity in an array that has all of them, one after the other."""
    if rows == 0 or rows % parts:
        raise UserError(f"{file}: expected {parts} severities of as many images each, got {rows:,} images")
    each = rows // parts
    return np.arange((severity - 1) * each, severity * each)


def _square(shape: Shape) -> Transform:
    return Transform(max(shape), max(shape), squash=shape[0] != shape[1])


def _refuse_known_classes(folder: Path, dataset: Dataset, name: str) -> None:
    known = wnids() if isinstance(dataset, ImageNetKind) else getattr(dataset, "classes", tuple)()
    if shared := sorted(set(known).intersection(list_folders(folder))):
        raise UserError(f"open: data={name}: {folder} has classes that the model knows ({some(shared)}): remove them")


def _images_below(folder: Path) -> list[str]:
    """The paths of all images below a folder, sorted; hidden files and folders are skipped."""
    found = []
    for home, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        start = Path(home).relative_to(folder)
        found += [(start / name).as_posix() for name in files if is_image_name(name)]
    return sorted(found)
