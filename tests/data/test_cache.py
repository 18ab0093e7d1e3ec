"""The cache of decoded images: the same images, faster, and never of files that have changed."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.data.test_loading import resident
from tests.support.denied import denied
from tta_bench.data import cache
from tta_bench.data.cache import CachedImages
from tta_bench.errors import UserError


class Files:
    """Images of one colour each, "decoded" from files of three bytes; counts what it decodes."""

    def __init__(self, folder: Path, count: int = 150, side: int = 4, transform: str = "none") -> None:
        self.files: Sequence[Path] = [folder / f"{i:03d}" for i in range(count)]
        self.ids = [path.name for path in self.files]
        self.labels = np.arange(count)
        self.transform = transform
        self.side = side
        self.decoded = 0

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        self.decoded += len(indices)
        pixels = np.empty((len(indices), 3, self.side, self.side), np.uint8)
        for pixel, i in zip(pixels, indices, strict=True):
            pixel[:] = np.frombuffer(self.files[i].read_bytes(), np.uint8)[:, None, None]
        return pixels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """150 source files."""
    made = tmp_path / "data"
    made.mkdir()
    for i in range(150):
        (made / f"{i:03d}").write_bytes(bytes([i, i + 1, 7]))
    return made


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Where caches go; does not exist yet."""
    return tmp_path / "kept" / "here"


ORDER = np.random.default_rng(0).permutation(150)


@pytest.mark.parametrize("workers", [0, 2])
def test_same_images_in_any_order(folder: Path, kept: Path, workers: int) -> None:
    images, reported = Files(folder), []
    cached = CachedImages(images, kept, "fog/5", workers=workers, on_progress=lambda *now: reported.append(now))
    expected = images.read(ORDER)
    for indices in (ORDER, np.sort(ORDER), np.array([3, 3, 149]), ORDER[:0]):
        assert np.array_equal(cached.read(indices), images.read(indices))
    assert np.array_equal(CachedImages(images, kept, "fog/5").read(ORDER), expected)
    assert (list(cached.ids), list(cached.labels)) == (images.ids, list(images.labels))
    assert reported == [(64, 150), (128, 150), (150, 150)]
    (file,) = kept.iterdir()  # no lock, no part
    assert file.name.startswith("fog-5-")
    assert file.stat().st_size == 4096 + 150 * 48


def test_built_at_the_first_read_and_not_again(folder: Path, kept: Path) -> None:
    images = Files(folder)
    CachedImages(images, kept, "fog")
    assert not kept.exists(), "a finished run opens its images, too, and reads none"
    CachedImages(images, kept, "fog", workers=0).read(ORDER)
    assert images.decoded == 1 + 150  # one image to get the shape
    again = CachedImages(images, kept, "fog")
    again.read(ORDER)
    again.read(ORDER)
    assert images.decoded == 151


def test_the_caller_may_change_what_it_read(folder: Path, kept: Path) -> None:
    cached = CachedImages(Files(folder), kept, "fog", workers=0)
    cached.read(ORDER)[:] = 0
    assert cached.read(np.array([5])).max() == 7


def test_changed_files_are_decoded_again(folder: Path, kept: Path) -> None:
    images = Files(folder)
    CachedImages(images, kept, "fog", workers=0).read(ORDER)
    path = folder / "005"
    path.write_bytes(bytes([99, 98, 97]))  # the same size
    os.utime(path, ns=(0, 5))  # whatever the clock's resolution
    assert CachedImages(images, kept, "fog", workers=0).read(np.array([5]))[0, :, 0, 0].tolist() == [99, 98, 97]
    assert len(list(kept.iterdir())) == 1, "the stale one is gone"


@pytest.mark.parametrize("count", [150, 149])
def test_other_sets_and_transforms_have_their_own_caches(folder: Path, kept: Path, count: int) -> None:
    transform = "none" if count < 150 else "crop"
    CachedImages(Files(folder), kept, "fog", workers=0).read(ORDER)
    other = CachedImages(Files(folder, count, transform=transform), kept, "fog", workers=0)
    assert len(other.read(np.arange(count))) == count
    assert len(list(kept.iterdir())) == 2


def test_another_pillow_version_decodes_again(folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = Files(folder)
    CachedImages(images, kept, "fog", workers=0).read(ORDER)
    monkeypatch.setattr(cache.PIL, "__version__", "0.1")
    CachedImages(images, kept, "fog", workers=0).read(ORDER)
    assert images.decoded == 302


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-1],
        lambda whole: whole + b"x",
        lambda whole: b"",
        lambda whole: b"[]".ljust(4096) + whole[4096:],
        lambda whole: b"\xff" * len(whole),
        lambda whole: json.dumps({"source": "other", "shape": [150, 3, 4, 4]}).encode().ljust(4096) + whole[4096:],
    ],
    ids=["cut", "longer", "empty", "no object", "no JSON", "of other images"],
)
def test_a_damaged_cache_is_rebuilt(folder: Path, kept: Path, damage: object) -> None:
    images = Files(folder)
    CachedImages(images, kept, "fog", workers=0).read(ORDER)
    (file,) = kept.iterdir()
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    assert np.array_equal(CachedImages(images, kept, "fog", workers=0).read(ORDER), images.read(ORDER))


def test_a_crash_leaves_no_cache_and_its_remains_are_cleared(folder: Path, kept: Path) -> None:
    class Interrupted(Files):
        def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
            if 100 in indices:
                raise KeyboardInterrupt
            return super().read(indices)

    cached = CachedImages(Interrupted(folder), kept, "fog", workers=0)
    with pytest.raises(KeyboardInterrupt):
        cached.read(ORDER)
    assert list(kept.iterdir()) == []
    (kept / f".{cached.path.name}.killed").write_bytes(b"left by kill -9")
    cached.path.with_suffix(".lock").write_bytes(b"")
    images = Files(folder)
    assert np.array_equal(CachedImages(images, kept, "fog", workers=0).read(ORDER), images.read(ORDER))
    assert list(kept.iterdir()) == [cached.path]


def build(folder: Path, kept: Path, ready: object, answers: object) -> None:
    """One of several processes that need the same cache at once."""
    images = Files(folder)
    ready.wait()  # type: ignore[attr-defined]
    same = np.array_equal(CachedImages(images, kept, "fog", workers=0).read(ORDER), Files(folder).read(ORDER))
    answers.put((same, images.decoded))  # type: ignore[attr-defined]


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_processes_that_build_the_same_cache_at_once(
    folder: Path, kept: Path, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(file: object, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if not locks:
        monkeypatch.setattr(fcntl, "flock", unsupported)
    fork = multiprocessing.get_context("fork")  # so that children inherit the patch
    ready, answers = fork.Barrier(3), fork.Queue()
    builders = [fork.Process(target=build, args=(folder, kept, ready, answers)) for _ in range(3)]
    for builder in builders:
        builder.start()
    results = [answers.get(timeout=30) for _ in builders]
    for builder in builders:
        builder.join()
    assert [same for same, _ in results] == [True] * 3
    if locks:
        assert sorted(decoded for _, decoded in results) == [0, 0, 151], "one decodes, the others wait"
    assert len([path for path in kept.iterdir() if path.suffix != ".lock"]) == 1


def test_a_full_disk_is_one_line(folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(UserError, match=r"needs 0\.0 GB, only .* are free: choose another --cache"):
        CachedImages(Files(folder), kept, "fog", workers=0).read(ORDER)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device: choose another --cache"):
        CachedImages(Files(folder), kept, "fog", workers=0).read(ORDER)
    assert list(kept.iterdir()) == []


def test_a_folder_that_cannot_be_created(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="choose another --cache"):
        CachedImages(Files(folder), tmp_path / "file" / "sub", "fog").read(ORDER)


def test_a_read_only_folder_serves_what_it_has(folder: Path, kept: Path) -> None:
    CachedImages(Files(folder), kept, "fog", workers=0).read(ORDER)
    with denied(kept, 0o555):
        assert len(CachedImages(Files(folder), kept, "fog").read(ORDER)) == 150
        with pytest.raises(UserError, match="Permission denied"):
            CachedImages(Files(folder), kept, "snow").read(ORDER)


def test_a_missing_source_file_is_named(folder: Path, kept: Path) -> None:
    (folder / "007").unlink()
    with pytest.raises(UserError, match="data/007: No such file"):
        CachedImages(Files(folder), kept, "fog").read(ORDER)


def test_images_of_several_sizes_and_no_images(folder: Path, kept: Path) -> None:
    class Growing(Files):
        def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
            self.side = 5 if 140 in indices else 4
            return super().read(indices)

    with pytest.raises(UserError, match=r"images 128 to 149 .* expected \[3, 4, 4\]"):
        CachedImages(Growing(folder), kept, "fog", workers=0).read(ORDER)
    with pytest.raises(UserError, match="no images"):
        CachedImages(Files(folder, 0), kept, "fog", workers=0).read(ORDER[:0])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_stays_constant_while_a_cache_is_read(folder: Path, kept: Path) -> None:
    """The file has 61 MB: mapped pages would count as this process's memory, which the tables show."""
    images = Files(folder, side=370)
    cached = CachedImages(images, kept, "fog", workers=0)
    cached.open()
    sizes = []
    for i in range(0, 150, 10):
        cached.read(np.arange(i, i + 10))
        sizes.append(resident())
    assert max(sizes) - sizes[0] < 8e6
