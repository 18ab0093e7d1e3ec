"""Shared by the ImageNet datasets: the 1000 classes and the clean validation images."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.listing import complaint, is_folder
from tta_bench.datasets.on_disk import OnDisk, in_folders, some_of
from tta_bench.errors import UserError

CLASSES = 1000
CLEAN_FOLDERS = ("ImageNet-val", "ImageNet/val", "imagenet/val", "ILSVRC2012/val", "val")


@lru_cache(maxsize=1)
def wnids() -> tuple[str, ...]:
    """The WordNet ids of the 1000 classes in the order of a classifier's logits, which is their sorted order."""
    return tuple((resources.files("tta_bench.datasets") / "imagenet_wnids.txt").read_text().split())


@lru_cache(maxsize=1)
def ranks() -> Mapping[str, int]:
    """The logit index of each class."""
    return MappingProxyType({wnid: rank for rank, wnid in enumerate(wnids())})


def refuse_unknown_classes(folder: Path, names: Collection[str]) -> None:
    """Refuse folders that are not named after a class: they have no label."""
    unknown = sorted(set(names) - set(wnids()))
    if unknown:
        raise UserError(f"{folder / unknown[0]}: '{unknown[0]}' is not an ImageNet class (expected e.g. n01440764)")


class ImageNetKind(OnDisk):
    """Data for models of the 1000 classes, with clean ImageNet as its source."""

    @property
    def model_classes(self) -> int:
        return CLASSES

    def source_images(self, task: str | None = None) -> FolderImages:
        """2,000 of the 50,000 clean validation images; with a class mask, only images of its classes.

        They are the originals of the ImageNet-C images, as EATA's authors use them: its Fisher information has seen,
        without labels, the originals of the images that it is scored on.
        """
        images = self.validation_images("clean source images are needed (a method prepares on them)")
        return some_of(images, "imagenet-val", "source")

    def validation_images(self, need: str) -> FolderImages:
        """The clean validation images of the classes that can occur."""
        folder = self.clean_folder(need)
        found = dict(self.listed(folder))
        refuse_unknown_classes(folder, found)
        self.refuse_partial(folder, complaint(found, (CLASSES, 50_000), names=wnids(), even=True))
        mask = self.class_mask()
        rank: Mapping[str, int] = ranks()
        if mask is not None:
            rank = {wnids()[label]: i for i, label in enumerate(mask)}
            found = {wnid: files for wnid, files in found.items() if wnid in rank}
        return in_folders(folder, found, rank, self.clean_view())

    def source_places(self, task: str) -> Sequence[Path]:
        return [self.clean_folder("no clean source images")]

    def clean_folder(self, need: str) -> Path:
        """The folder of the clean validation images; `need` starts the error message if it is missing."""
        root = self.data_root()
        for name in CLEAN_FOLDERS:
            if is_folder(root / name):
                return root / name
        raise UserError(
            f"{need}: put the ImageNet validation images as {root / CLEAN_FOLDERS[0]}/<wnid>/*.JPEG "
            f"(searched for {', '.join(CLEAN_FOLDERS)}; `tta-bench download imagenet-val` says where they are)"
        )
