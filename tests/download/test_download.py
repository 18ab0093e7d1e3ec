"""A download is the published file or nothing, in its place, fetched once."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path

import pytest

from tests.support import archives
from tests.support.denied import denied
from tests.support.downloads import ARRAYS, TAR, published, start, visible
from tests.support.servers import Website
from tta_bench.download import fetch, space
from tta_bench.download.fetch import HIDDEN, fetch_file
from tta_bench.download.table import PublishedFile
from tta_bench.errors import UserError


def test_a_tar_is_checked_and_unpacked(website: Website, tmp_path: Path) -> None:
    stages: list[tuple[str, int, int | None]] = []
    fetched = fetch_file(published(website), tmp_path, on_progress=lambda *step: stages.append(step))
    assert (fetched.target, fetched.was_there, fetched.is_published) == (tmp_path / "CIFAR-10-C", False, True)
    assert {name: (tmp_path / name).read_bytes() for name in ARRAYS} == ARRAYS
    assert list(dict.fromkeys(step[0] for step in stages)) == ["fetching", "checking", "unpacking"]
    assert all(total == len(TAR) and done <= len(TAR) for _, done, total in stages)
    assert visible(tmp_path) == ["CIFAR-10-C"]
    assert not list((tmp_path / HIDDEN).glob("*.part*")), "the archive is not kept"
    note = json.loads((tmp_path / HIDDEN / "CIFAR-10-C.tar.json").read_text())
    assert (note["bytes"], note["md5"], note["published"]) == (len(TAR), hashlib.md5(TAR).hexdigest(), True)
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "CIFAR-10-C" / "fog.npy").stat().st_mode & 0o777 == 0o666 & ~umask


def test_what_is_there_is_neither_fetched_nor_changed(website: Website, tmp_path: Path) -> None:
    (tmp_path / "CIFAR-10-C").mkdir()
    assert fetch_file(published(website), tmp_path).was_there
    assert (website.seen, visible(tmp_path)) == ([], ["CIFAR-10-C"])


def test_another_checksum_is_refused_and_not_resumed(website: Website, tmp_path: Path) -> None:
    website.files["CIFAR-10-C.tar"] = TAR[:-1] + b"!"
    with pytest.raises(UserError, match=r"md5 \w{32}, but \w{32} is published: the file is damaged .* was removed"):
        fetch_file(published(website), tmp_path)
    assert (visible(tmp_path), list((tmp_path / HIDDEN).glob("*.part"))) == ([], [])
    website.files["CIFAR-10-C.tar"] = TAR
    fetch_file(published(website), tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


def test_another_size_is_refused_before_a_byte_is_kept(website: Website, tmp_path: Path) -> None:
    website.files["CIFAR-10-C.tar"] = TAR + bytes(10)
    with pytest.raises(UserError, match=r"the server's file has 92,170 bytes, the published one 92,160"):
        fetch_file(published(website), tmp_path)
    assert not list((tmp_path / HIDDEN).glob("*.part"))


def test_a_server_that_states_no_length_is_held_to_the_published_one(website: Website, tmp_path: Path) -> None:
    website.states_length = False
    website.files["CIFAR-10-C.tar"] = TAR + bytes(10)
    with pytest.raises(UserError, match=r"the server sends more than 92,160 bytes"):
        fetch_file(published(website), tmp_path)
    assert visible(tmp_path) == []


def test_an_unpublished_checksum_is_recorded_and_held_to(website: Website, tmp_path: Path) -> None:
    file = published(website, bytes=None, md5="")
    fetched = fetch_file(file, tmp_path)
    assert (fetched.is_published, fetched.checksum) == (False, f"sha256 {hashlib.sha256(TAR).hexdigest()}")
    (tmp_path / "CIFAR-10-C").rename(tmp_path / "old")
    website.files["CIFAR-10-C.tar"] = archives.tar({"CIFAR-10-C/fog.npy": b"new"})
    with pytest.raises(UserError, match=r"but an earlier download had \w{64}: delete .*json to accept it"):
        fetch_file(file, tmp_path)
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.json").unlink()
    fetch_file(file, tmp_path)
    assert (tmp_path / "CIFAR-10-C" / "fog.npy").read_bytes() == b"new"


@pytest.mark.parametrize("bad", [b"no tar at all" * 100, archives.tar({"../evil": b"x"})], ids=["damaged", "outside"])
def test_a_bad_archive_without_a_checksum_binds_no_later_download(website: Website, tmp_path: Path, bad: bytes) -> None:
    """The server may have sent something else than the dataset: nobody can tell before it is unpacked."""
    website.files["CIFAR-10-C.tar"] = bad
    file = published(website, bytes=None, md5="")
    with pytest.raises(UserError, match="the file was removed, run the same command again"):
        fetch_file(file, tmp_path)
    website.files["CIFAR-10-C.tar"] = TAR
    fetch_file(file, tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


def test_a_tar_for_a_loader_that_reads_tars_stays_packed(website: Website, tmp_path: Path) -> None:
    file = PublishedFile(f"{website.address}/CIFAR-10-C.tar", "ImageNet-C/CIFAR-10-C.tar", same_as=("fog", "snow"))
    fetch_file(file, tmp_path)
    assert (tmp_path / "ImageNet-C" / "CIFAR-10-C.tar").read_bytes() == TAR
    (tmp_path / "ImageNet-C" / "CIFAR-10-C.tar").unlink()
    (tmp_path / "ImageNet-C" / "fog").mkdir()
    assert not fetch.is_there(file, tmp_path)
    (tmp_path / "ImageNet-C" / "snow").mkdir()
    assert fetch.is_there(file, tmp_path), "all of its folders are there"


def test_many_processes_fetch_a_file_once(website: Website, tmp_path: Path) -> None:
    processes = [start(website, tmp_path) for _ in range(3)]
    said = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert sorted(said) == ["False", "True", "True"]
    assert len(website.bodies) == 1


def test_too_little_disk_is_refused_before_a_byte_is_kept(
    website: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "free", lambda folder: len(TAR) - 1)
    with pytest.raises(UserError, match=r"CIFAR-10-C.tar needs 92,160 bytes, but .* has only 92,159 bytes left"):
        fetch_file(published(website), tmp_path)
    assert visible(tmp_path) == []


def test_a_folder_without_permission_is_named(website: Website, tmp_path: Path) -> None:
    with (
        denied(tmp_path, 0o500),
        pytest.raises(UserError, match=r"\.downloads cannot be written \(Permission denied\)"),
    ):
        fetch_file(published(website), tmp_path)
    assert website.seen == []


def test_a_folder_that_cannot_be_written_is_named(website: Website, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file.* cannot be written \(Not a directory\)"):
        fetch_file(published(website), tmp_path / "file")


def test_a_name_in_two_places_is_refused(website: Website, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a dataset's own folder: pass"):
        fetch_file(published(website), tmp_path / "cifar-10-c")
    (tmp_path / "cifar-10-C").mkdir()
    with pytest.raises(UserError, match="cifar-10-C exists beside the expected CIFAR-10-C: rename it"):
        fetch_file(published(website), tmp_path)
    assert website.seen == []


def test_two_processes_fetch_a_file_once(website: Website, tmp_path: Path) -> None:
    """Threads hold the lock as processes do: each has its own lock object and file handle."""
    website.wait = threading.Event()
    waits: list[int] = []
    results: list[bool] = []

    def fetch() -> None:
        fetched = fetch_file(published(website), tmp_path, on_wait=lambda: (waits.append(1), website.wait.set())[0])  # type: ignore
        results.append(fetched.was_there)

    threads = [threading.Thread(target=fetch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sorted(results), len(waits), len(website.bodies)) == ([False, True], 1, 1)


def test_a_stranger_s_folder_is_never_replaced(website: Website, tmp_path: Path) -> None:
    def appear(stage: str, done: int, total: int | None) -> None:
        (tmp_path / "CIFAR-10-C").mkdir(exist_ok=True)

    with pytest.raises(UserError, match="CIFAR-10-C appeared meanwhile and is left unchanged"):
        fetch_file(published(website), tmp_path, on_progress=appear)
    assert list((tmp_path / "CIFAR-10-C").iterdir()) == []
