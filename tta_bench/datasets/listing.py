"""Lists class folders and compares them with the published dataset. Opens no image, so ImageNet-C takes seconds.

A path that does not exist is an answer; a path that cannot be accessed raises UserError.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tta_bench.errors import UserError, some

SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm")

AT_ONCE = 16  # folders

Classes = Mapping[str, Sequence[str]]  # class name to its file names; both in sorted order


def is_folder(path: Path) -> bool:
    """Whether the path is a folder, or a link to one."""
    return stat.S_ISDIR(_mode(path))


def is_file(path: Path) -> bool:
    """Whether the path is a file, or a link to one."""
    return stat.S_ISREG(_mode(path))


def is_there(path: Path) -> bool:
    """Whether anything has this name, even a broken link."""
    return _mode(path, follow=False) != 0


def list_classes(folder: Path) -> dict[str, list[str]]:
    """The images of each class folder in `folder`; other files are skipped.

    Lists several folders at once: a network disk answers after a delay. 1,000 folders at 1 ms each take 0.3 s instead
    of 2.2 s; without a delay it costs 82 ms instead of 64 ms of CPU time (python -m benchmarks.shortcuts listing).
    """
    names = list_folders(folder)
    size = max(1, len(names) // (4 * AT_ONCE))  # a thread takes a share at a time: single folders cost 95 ms
    shares = [names[start : start + size] for start in range(0, len(names), size)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        listed = pool.map(lambda share: [_list_images(f"{folder}/{name}") for name in share], shares)
        return {
            name: files
            for share, found in zip(shares, listed, strict=True)
            for name, files in zip(share, found, strict=True)
        }


def list_folders(folder: Path) -> list[str]:
    """The names of the folders in `folder`, sorted; hidden ones are skipped."""
    with _scan(folder) as entries:
        return sorted(entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry))


def list_names(folder: Path) -> list[str]:
    """All names in `folder`; links are not followed."""
    with _scan(folder) as entries:
        return [entry.name for entry in entries]


def missing_from(folder: Path, names: Sequence[str]) -> list[str]:
    """The names that are missing from `folder`, or all if it does not exist; a name of a non-file raises UserError.

    Lists the folder once, which also gives file types: checking each of 17,304 files is slow on a network disk.
    """
    if not is_folder(folder):
        return list(names)
    with _scan(folder) as entries:
        found = {entry.name: entry for entry in entries}
    missing = [name for name in names if name not in found]
    for entry in (found[name] for name in names if name in found):
        if not entry.is_file(follow_symlinks=False):
            _refuse_non_file(entry)
    return missing


def complaint(
    found: Classes, published: tuple[int, int], *, names: Collection[str] = (), even: bool = False
) -> str | None:
    """How classes and images differ from the published dataset; None if they do not.

    With the `names` of all classes it names the missing ones, with `even` the classes with too few or too many images.
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
        # Most names end in .JPEG as in ImageNet; a function call for each of 750,000 takes half a second.
        images = [entry for entry in entries if entry.name.endswith(".JPEG") or is_image_name(entry.name)]
        for entry in images:
            # The listing includes the type of each entry; only links need another call.
            if not entry.is_file(follow_symlinks=False):
                _refuse_non_file(entry)
        names = [entry.name for entry in images if entry.name[0] != "."]
    if not names:
        raise UserError(f"class folder {folder} is empty: fill it again or remove it")
    names.sort()
    return names


def _refuse_non_file(entry: os.DirEntry[str]) -> None:
    try:
        is_file = stat.S_ISREG(entry.stat().st_mode)
    except OSError as error:
        raise _cannot_follow(entry.path, error) from error
    if not is_file:
        raise UserError(f"{entry.path}: not a file, expected an image")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:  # a link to itself
        raise _cannot_follow(entry.path, error) from error


def _mode(path: Path, *, follow: bool = True) -> int:
    """The file mode; 0 if the path does not exist. Path.is_dir raises on some errors and hides others."""
    try:
        return path.stat(follow_symlinks=follow).st_mode
    except ValueError:  # an invalid file name
        return 0
    except OSError as error:
        if error.errno == errno.ELOOP or os.path.islink(path):  # noqa: PTH114  # Path.is_symlink may raise again
            raise _cannot_follow(path, error) from error
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return 0
        closed = next((folder for folder in reversed(path.absolute().parents) if not _may_enter(folder)), None)
        what = f"{path} cannot be accessed" if closed is None else f"folder {closed} cannot be entered"
        raise UserError(f"{what} ({error.strerror})") from error


def _may_enter(folder: Path) -> bool:
    return os.path.exists(f"{folder}/.")  # noqa: PTH110  # a Path would drop the dot, which tests entering


def _cannot_follow(path: Path | str, error: OSError) -> UserError:
    return UserError(f"{path}: a link that cannot be followed ({error.strerror})")


@contextmanager
def _scan(folder: Path | str) -> Iterator[Iterator[os.DirEntry[str]]]:
    try:
        with os.scandir(folder) as entries:
            yield entries
    except OSError as error:
        raise UserError(f"folder {folder} cannot be listed ({error.strerror})") from error
