"""ImageNet-C: one corruption per task, as folders or as tars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tta_bench.annotations import Partial, Severity
from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.data.images import ImageSet
from tta_bench.datasets.files import FolderImages, TarImages
from tta_bench.datasets.imagenet import CLASSES, ImageNetKind, ranks, refuse_unknown_classes, wnids
from tta_bench.datasets.listing import (
    Classes,
    complaint,
    is_file,
    is_folder,
    is_there,
    list_folders,
)
from tta_bench.datasets.on_disk import in_folders, labels_of
from tta_bench.datasets.tar import index
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError, some

PARTS = {  # the files of the published download
    "noise.tar": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur.tar": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather.tar": ("snow", "frost", "fog", "brightness"),
    "digital.tar": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    "extra.tar": HELD_OUT,
}
MADE = "make-corrupted.json"  # marks a tree that was made here, not downloaded
ALL = (*CORRUPTIONS, *HELD_OUT)


class ImageNetC(ImageNetKind):
    """`<corruption>/<severity>/<wnid>/*.JPEG` in DATA_ROOT/ImageNet-C, or in DATA_ROOT itself.

    A corruption without a folder is read from `<corruption>.tar`, or from the published `noise.tar`, `blur.tar`
    and so on, without unpacking; its headers are scanned once per process, which takes seconds per tar.
    """

    layout = "ImageNet-C/<corruption>/<severity>/<wnid>/*.JPEG (or ImageNet-C/<corruption>.tar)"
    num_classes = CLASSES

    def __init__(self, root: Path | None, *, severity: Severity, allow_partial: Partial = False) -> None:
        super().__init__(root, allow_partial=allow_partial)
        self.severity = severity

    @property
    def transform(self) -> Transform:
        """Resizes to the model's input size; the published images have 224 pixels already."""
        return Transform(self.size, self.size, interpolation=self.interpolation)

    def at_severity(self, severity: int) -> ImageNetC:
        return self._with(severity=severity)

    def tasks(self) -> Sequence[str]:
        return ALL

    def published(self, task: str) -> tuple[int, int]:
        return CLASSES, 50_000

    def downloads(self, task: str | None = None) -> Sequence[str]:
        if task is None:
            return ("imagenet-c",)
        return [f"imagenet-c-{Path(part).stem}" for part, corruptions in PARTS.items() if task in corruptions]

    def open(self, task: str) -> ImageSet:
        home = self._home()
        folder = home / task / str(self.severity)
        has_folder = is_folder(folder)
        if has_folder and list_folders(folder):
            return self._from_folder(folder, task)
        for file in _tars(home, task):  # an empty folder does not hide a tar
            return self._from_tar(file, task)
        if has_folder:
            raise UserError(f"{folder}: has no images: expected {self.layout}")
        raise UserError(f"{folder} is missing: expected {self.layout}{self.hint(task)}")

    def seems_there(self, task: str) -> bool:
        home = self._home()
        return is_folder(home / task / str(self.severity)) or bool(_tars(home, task))

    def places(self, task: str) -> Sequence[Path]:
        home = self._home()
        folder = home / task / str(self.severity)
        return [folder, *_tars(home, task)] if is_folder(folder) else _tars(home, task)

    def made_by(self) -> str:
        home = self._home()
        return "make-corrupted" if is_file(home / MADE) else ""

    def originals(self, task: str) -> FolderImages:
        """The validation images of the same names, preprocessed as the corrupted ones were before corruption."""
        folder = self.clean_folder("no originals")
        corrupted = self.open(task)
        ids = [image_id.split("/", 2)[2] for image_id in corrupted.ids]  # <wnid>/<file>
        clean = {f"{wnid}/{file}" for wnid, files in self.listed(folder).items() for file in files}
        missing = [image_id for image_id in ids if image_id not in clean]
        if missing:
            raise UserError(f"no originals: {folder}: {len(missing):,} of {len(ids):,} are missing: {some(missing)}")
        return FolderImages(folder, ids, corrupted.labels, self.clean_view())

    def _home(self) -> Path:
        return self.find(("ImageNet-C", "imagenet-c"), _holds_corruptions)

    def _from_folder(self, folder: Path, task: str) -> FolderImages:
        found = self.listed(folder)
        self._check(folder, task, found)
        return in_folders(folder, found, ranks(), self.transform, prefix=f"{task}/{self.severity}/")

    def _from_tar(self, file: Path, task: str) -> TarImages:
        members = index(file).get((task, self.severity))
        if members is None:
            raise UserError(f"{file}: has no {task}/{self.severity}/<wnid>/*.JPEG in it")
        found: dict[str, list[str]] = {}
        for path in members.paths:
            wnid, _, name = path.partition("/")
            found.setdefault(wnid, []).append(name)
        self._check(file, task, found)
        ids = [f"{task}/{self.severity}/{path}" for path in members.paths]
        places = np.array(members.offsets, np.int64), np.array(members.sizes, np.int64)
        return TarImages(file, ids, labels_of(found, ranks()), self.transform, *places)

    def _check(self, where: Path, task: str, found: Classes) -> None:
        refuse_unknown_classes(where, found)
        self.refuse_partial(where, complaint(found, self.published(task), names=wnids(), even=True))


def _tars(home: Path, task: str) -> list[Path]:
    """The existing tars that may hold a corruption."""
    return [home / name for name in _tar_names(task) if is_file(home / name)]


def _tar_names(task: str) -> list[str]:
    return [f"{task}.tar", *(part for part, corruptions in PARTS.items() if task in corruptions)]


def _holds_corruptions(folder: Path) -> bool:
    # A broken link counts: opening its task reports it, and the other tasks continue.
    return any(is_there(folder / name) for task in ALL for name in (task, *_tar_names(task)))
