"""Small trees of real image files in the layouts in which the datasets are published, and how to open them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tta_bench.datasets import Dataset, open_dataset
from tta_bench.datasets.imagenet import wnids


def picture(seed: int, size: tuple[int, int] = (40, 30)) -> Image.Image:
    """A smooth image with colours from a seed: JPEG keeps it recognisable."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (3, 4, 3), dtype=np.uint8))
    return small.resize(size, Image.Resampling.BICUBIC)


def write(path: Path, seed: int = 0, size: tuple[int, int] = (40, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed, size).save(path, quality=95)
    return path


def some_wnids(count: int, start: int = 0) -> list[str]:
    return list(wnids()[start : start + count])


def imagenet_c(
    root: Path, corruptions: Iterable[str] = ("fog",), severities: Iterable[int] = (5,), classes: int = 3, each: int = 2
) -> Path:
    """ImageNet-C/<corruption>/<severity>/<wnid>/ILSVRC2012_val_*.JPEG"""
    home = root / "ImageNet-C"
    for corruption in corruptions:
        for severity in severities:
            for c, wnid in enumerate(some_wnids(classes)):
                for i in range(each):
                    number = 1000 * severity + each * c + i
                    name = f"ILSVRC2012_val_{each * c + i + 1:08d}.JPEG"
                    write(home / corruption / str(severity) / wnid / name, number, (224, 224))
    return home


def clean_imagenet(root: Path, folder: str = "ImageNet-val", classes: int = 3, each: int = 2) -> Path:
    """<folder>/<wnid>/ILSVRC2012_val_*.JPEG"""
    for c, wnid in enumerate(some_wnids(classes)):
        for i in range(each):
            write(root / folder / wnid / f"ILSVRC2012_val_{each * c + i + 1:08d}.JPEG", each * c + i, (50, 40))
    return root / folder


def class_folders(root: Path, folder: str, names: Iterable[str], each: int = 1) -> Path:
    """<folder>/<wnid>/art_*.jpg"""
    for c, wnid in enumerate(names):
        for i in range(each):
            write(root / folder / wnid / f"art_{i}.jpg", 10 * c + i)
    return root / folder


def visda(root: Path, lines: Iterable[tuple[str, int]], missing: Iterable[str] = ()) -> Path:
    """VisDA-2021/val_filelists/imagenet_c_r_o_filelist.txt with `<root>/val_data/…` paths, and their files."""
    home, text = root / "VisDA-2021", ""
    for i, (path, label) in enumerate(lines):
        text += f"<root>/{path} {label}\n"
        if path not in missing:
            write(home / path, i, (60, 30))
    listed = home / "val_filelists" / "imagenet_c_r_o_filelist.txt"
    listed.parent.mkdir(parents=True)
    listed.write_text(text)
    return home


def office_home(
    root: Path, classes: Iterable[str] = ("Alarm_Clock", "Backpack", "TV"), real: str = "Real World"
) -> Path:
    """OfficeHome/<domain>/<class>/00001.jpg; each domain has one image more in a class than the one before."""
    home = root / "OfficeHome"
    for d, domain in enumerate(("Art", "Clipart", "Product", real)):
        for c, name in enumerate(classes):
            for i in range(d + 1):
                write(home / domain / name / f"{i + 1:05d}.jpg", 100 * d + 10 * c + i)
    return home


def cifar_c(root: Path, classes: int = 10, corruptions: Iterable[str] = ("fog",), block: int = 20) -> Path:
    """CIFAR-10-C/<corruption>.npy of five blocks, one a severity, and labels.npy."""
    home = root / f"CIFAR-{classes}-C"
    home.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for corruption in corruptions:
        images = rng.integers(0, 256, (5 * block, 32, 32, 3), dtype=np.uint8)
        images[:, 0, 0, 0] = np.repeat(np.arange(1, 6), block)  # a mark of the severity
        np.save(home / f"{corruption}.npy", images)
    np.save(home / "labels.npy", np.tile(np.arange(block) % classes, 5).astype(np.uint8))
    return home


def packed(folder: Path, into: Path, name: str, form: int = tarfile.USTAR_FORMAT) -> Path:
    """A tar of a folder, its members under `name`, in an order that is not sorted."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(into, "w", format=form) as content:
        for path in sorted(folder.rglob("*"), reverse=True):
            content.add(path, f"{name}/{path.relative_to(folder)}", recursive=False)
    return into


def partial(kind: str, root: Path | None, **options: Any) -> Dataset:
    """A dataset that may have fewer images than are published."""
    return open_dataset({"kind": kind, "allow_partial": True, **options}, (), root)


def everything(images: Any) -> Any:
    """All pixels of an image set."""
    return images.read(np.arange(len(images.ids)))


def broken(path: Path, how: str) -> str:
    """Break an image file; returns the expected error."""
    content = path.read_bytes()
    path.unlink()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
        return "cannot be read as an image .*truncated"
    if how == "no image":
        path.write_text("<html>404</html>")
        return "not an image"
    if how == "empty":
        path.touch()
        return "not an image"
    if how == "a folder":
        path.mkdir()
        return "not a file, expected an image"
    path.symlink_to(path.name if how == "loop" else "nowhere.JPEG")
    return "a link that cannot be followed"
