"""Looks at folders of classes, and compares them with what is published. Opens no image: ImageNet-C takes seconds.

What is not there is one thing, what cannot be looked at another: the second is always a UserError.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tta_bench.errors import UserError, some

SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm")

PROBED = 20  # folders that show how long the disk lets us wait
LONG_WAIT = 1e-3  # seconds a folder: 15 for the 15,000 of ImageNet-C
AT_ONCE = 16

Classes = Mapping[str, Sequence[str]]  # class name to its file names; both in sorted order


def is_folder(path: Path) -> bool:
    """Whether a folder is there, or a link to one."""
    return stat.S_ISDIR(_mode(path))


def is_file(path: Path) -> bool:
    """Whether a file is there, or a link to one."""
    return stat.S_ISREG(_mode(path))


def is_there(path: Path) -> bool:
    """Whether anything has this name, be it a link that leads nowhere."""
    return _mode(path, follow=False) != 0


def list_classes(folder: Path) -> dict[str, list[str]]:
    """The images of each class folder in `folder`; other files are passed over.

    A network disk lets us wait for every folder, so there several are asked at once. On a quick disk threads would
    only take turns with each other, and need twice as long.
    """
    names = list_folders(folder)
    began, computed = time.perf_counter(), time.thread_time()
    listed = [_list_images(f"{folder}/{name}") for name in names[:PROBED]]
    waited = time.perf_counter() - began - (time.thread_time() - computed)
    rest = [f"{folder}/{name}" for name in names[PROBED:]]
    if waited > PROBED * LONG_WAIT:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            listed += pool.map(_list_images, rest)
    else:
        listed += map(_list_images, rest)
    return dict(zip(names, listed, strict=True))


def list_folders(folder: Path) -> list[str]:
    """The names of the folders in `folder`, sorted; hidden ones are passed over."""
    with _scan(folder) as entries:
        return sorted(entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry))


def list_names(folder: Path) -> list[str]:
    """The names of all that is in `folder`; links are not followed."""
    with _scan(folder) as entries:
        return [entry.name for entry in entries]


def not_in(folder: Path, names: Sequence[str]) -> list[str]:
    """Those of the names that `folder` does not have, or all if it is not there; what is no file is a UserError.

    The folder is listed once, which tells kinds as well: a look at each of 17,304 files would take a network disk long.
    """
    if not is_folder(folder):
        return list(names)
    with _scan(folder) as entries:
        there = {entry.name: entry for entry in entries}
    missing = [name for name in names if name not in there]
    for entry in (there[name] for name in names if name in there):
        if not entry.is_file(follow_symlinks=False):
            _refuse_no_file(entry)
    return missing


def complaint(
    found: Classes, published: tuple[int, int], *, names: Collection[str] = (), even: bool = False
) -> str | None:
    """How classes and images differ from what is published, or None.

    With `names` of all classes the missing ones are named, with `even` the classes that have too few or many images.
    """
    classes, images = published
    if len(found) != classes or (names and set(found) != set(names)):
        missing = [f"{some(sorted(set(names) - set(found)))} missing"] if set(names) - set(found) else []
        strange = [f"{some(sorted(set(found) - set(names)))} not expected"] if names and set(found) - set(names) else []
        why = "; ".join(missing + strange)
        return f"{len(found)} classes, expected {classes}" + (f": {why}" if why else "")
    total = sum(map(len, found.values()))
    if total == images and not even:
        return None
    each = images // classes
    uneven = [f"{name} ({len(files)})" for name, files in found.items() if len(files) != each] if even else []
    if total == images and not uneven:
        return None
    hint = f": {each} in each class, but not in {some(uneven)}" if uneven else ""
    return f"{total:,} images, expected {images:,}{hint}"


def is_image_name(name: str) -> bool:
    return name[-5:].lower().endswith(SUFFIXES) and name[0] != "."


def _list_images(folder: str) -> list[str]:
    with _scan(folder) as entries:
        # Most names end like those of ImageNet; a call for each of 750,000 takes half a second.
        images = [entry for entry in entries if entry.name.endswith(".JPEG") or is_image_name(entry.name)]
        for entry in images:
            # The kind of an entry comes with the listing; only links cost a look of their own.
            if not entry.is_file(follow_symlinks=False):
                _refuse_no_file(entry)
        names = [entry.name for entry in images if entry.name[0] != "."]
    if not names:
        raise UserError(f"class folder {folder} is empty: fill it again or remove it")
    names.sort()
    return names


def _refuse_no_file(entry: os.DirEntry[str]) -> None:
    try:
        is_file = stat.S_ISREG(entry.stat().st_mode)
    except OSError as error:
        raise _cannot_follow(entry.path, error) from error
    if not is_file:
        raise UserError(f"{entry.path}: expected an image file, this is none")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:  # a link that leads to itself
        raise _cannot_follow(entry.path, error) from error


def _mode(path: Path, *, follow: bool = True) -> int:
    """The kind of what is there; 0 if nothing is. Path.is_dir would raise on some errors and hide the others."""
    try:
        return path.stat(follow_symlinks=follow).st_mode
    except ValueError:  # a name that no file can have
        return 0
    except OSError as error:
        if error.errno == errno.ELOOP or os.path.islink(path):  # noqa: PTH114  # Path.is_symlink may raise again
            raise _cannot_follow(path, error) from error
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return 0
        shut = next((folder for folder in reversed(path.absolute().parents) if not _may_enter(folder)), None)
        what = f"{path}: cannot be looked at" if shut is None else f"folder {shut} cannot be entered"
        raise UserError(f"{what} ({error.strerror})") from error


def _may_enter(folder: Path) -> bool:
    return os.path.exists(f"{folder}/.")  # noqa: PTH110  # a Path would drop the dot, which asks to enter


def _cannot_follow(path: Path | str, error: OSError) -> UserError:
    return UserError(f"{path}: a link that cannot be followed ({error.strerror})")


@contextmanager
def _scan(folder: Path | str) -> Iterator[Iterator[os.DirEntry[str]]]:
    try:
        with os.scandir(folder) as entries:
            yield entries
    except OSError as error:
        raise UserError(f"folder {folder} cannot be listed ({error.strerror})") from error
