"""Downloads from a real server on loopback that breaks off, lies and repeats itself."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import archives
from tests.denied import denied
from tests.servers import Website, serve
from tta_bench.download import bring as bringing
from tta_bench.download import space, transfer
from tta_bench.download.bring import HIDDEN, bring
from tta_bench.download.table import PublishedFile
from tta_bench.errors import UserError

ARRAYS = {f"CIFAR-10-C/{name}.npy": random.Random(name).randbytes(40_000) for name in ("fog", "labels")}
TAR = archives.tar(ARRAYS)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PAUSE", 0.001)
    monkeypatch.setattr(transfer, "CHUNK", 8192)


@pytest.fixture
def site() -> Iterator[Website]:
    with serve(Website({"CIFAR-10-C.tar": TAR})) as website:
        yield website


def published(site: Website, content: bytes = TAR, **changes: object) -> PublishedFile:
    """The tar as the table would describe it."""
    known = {"bytes": len(content), "md5": hashlib.md5(content).hexdigest()}
    return PublishedFile(f"{site.address}/CIFAR-10-C.tar", "CIFAR-10-C", **{**known, **changes})  # type: ignore[arg-type]


def visible(root: Path) -> list[str]:
    """What a loader would see."""
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


def test_a_tar_is_checked_and_unpacked(site: Website, tmp_path: Path) -> None:
    stages: list[tuple[str, int, int | None]] = []
    brought = bring(published(site), tmp_path, on_progress=lambda *step: stages.append(step))
    assert (brought.target, brought.was_there, brought.is_published) == (tmp_path / "CIFAR-10-C", False, True)
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


def test_what_is_there_is_neither_fetched_nor_changed(site: Website, tmp_path: Path) -> None:
    (tmp_path / "CIFAR-10-C").mkdir()
    assert bring(published(site), tmp_path).was_there
    assert (site.seen, visible(tmp_path)) == ([], ["CIFAR-10-C"])


def test_a_broken_transfer_continues_by_itself(site: Website, tmp_path: Path) -> None:
    site.cut_after = 30_000
    bring(published(site), tmp_path)
    starts = [int(wanted.removeprefix("bytes=").rstrip("-") or 0) for _, wanted in site.bodies]
    assert starts == list(range(0, len(TAR), 30_000))


def test_a_failed_transfer_continues_in_the_next_call(site: Website, tmp_path: Path) -> None:
    part = tmp_path / HIDDEN / "CIFAR-10-C.tar.part"
    part.parent.mkdir()
    part.write_bytes(TAR[:33_333])
    bring(published(site), tmp_path)
    assert site.bodies == [("CIFAR-10-C.tar", "bytes=33333-")]
    assert (tmp_path / "CIFAR-10-C" / "fog.npy").read_bytes() == ARRAYS["CIFAR-10-C/fog.npy"]


def test_a_server_that_sends_nothing_more_keeps_what_arrived(site: Website, tmp_path: Path) -> None:
    site.cut_after = 0
    part = tmp_path / HIDDEN / "CIFAR-10-C.tar.part"
    part.parent.mkdir()
    part.write_bytes(TAR[:100])
    with pytest.raises(UserError, match=r"ended after 100 of 92,160 bytes; 100 bytes are kept, run the same command"):
        bring(published(site), tmp_path)
    assert len(site.bodies) == transfer.TRIES
    assert (part.read_bytes(), visible(tmp_path)) == (TAR[:100], [])


def test_a_server_without_ranges_starts_from_the_first_byte(site: Website, tmp_path: Path) -> None:
    site.ranges = False
    (tmp_path / HIDDEN).mkdir()
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.part").write_bytes(b"x" * 500)
    bring(published(site), tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


def test_a_file_that_changed_on_the_server_starts_again(site: Website, tmp_path: Path) -> None:
    """Without a published checksum, bytes of two versions would otherwise become one file."""
    file = published(site, bytes=None, md5="")
    older = archives.tar({name: bytes(len(body)) for name, body in ARRAYS.items()})
    site.files["CIFAR-10-C.tar"], site.cut_after = older, 30_000
    monkey = pytest.MonkeyPatch()
    monkey.setattr(transfer, "TRIES", 1)

    def change(stage: str, done: int, total: int | None) -> None:
        if done == 30_000:
            site.files["CIFAR-10-C.tar"], site.cut_after = TAR, None

    bring(file, tmp_path, on_progress=change)
    monkey.undo()
    assert (tmp_path / "CIFAR-10-C" / "fog.npy").read_bytes() == ARRAYS["CIFAR-10-C/fog.npy"]


def test_a_complete_part_is_only_checked(site: Website, tmp_path: Path) -> None:
    (tmp_path / HIDDEN).mkdir()
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.part").write_bytes(TAR)
    bring(published(site), tmp_path)
    assert (site.seen, visible(tmp_path)) == ([], ["CIFAR-10-C"])
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.part").write_bytes(TAR)
    (tmp_path / "CIFAR-10-C").rename(tmp_path / "elsewhere")
    bring(published(site, bytes=None), tmp_path)  # the server answers 416: nothing follows
    assert site.bodies == [("CIFAR-10-C.tar", f"bytes={len(TAR)}-")]


def test_a_part_that_is_too_long_is_fetched_again(site: Website, tmp_path: Path) -> None:
    (tmp_path / HIDDEN).mkdir()
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.part").write_bytes(TAR + b"more")
    bring(published(site), tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


@pytest.mark.parametrize(
    ("errors", "tries", "message"),
    [
        ([404], 1, "the server answered 404 Not Found: the file has moved; --mirror URL takes it from another server"),
        ([403], 1, "the server answered 403 Forbidden"),
        ([500] * 9, 4, "the server answered 500 Internal Server Error"),
    ],
)
def test_a_refusal_is_one_line(site: Website, tmp_path: Path, errors: list[int], tries: int, message: str) -> None:
    site.errors = list(errors)
    with pytest.raises(UserError) as caught:
        bring(published(site), tmp_path)
    assert str(caught.value) == f"{site.address}/CIFAR-10-C.tar: {message}"
    assert (len(site.bodies), visible(tmp_path)) == (tries, [])


def test_a_busy_server_is_asked_again(site: Website, tmp_path: Path) -> None:
    site.errors = [503, 429]
    bring(published(site), tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


def test_a_web_page_is_not_a_dataset(site: Website, tmp_path: Path) -> None:
    site.page = True
    with pytest.raises(UserError, match="the server sent a web page instead of the file"):
        bring(published(site), tmp_path)
    assert not list((tmp_path / HIDDEN).glob("*.part"))


def test_a_silent_server_is_left(site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT", 0.1)
    monkeypatch.setattr(transfer, "TRIES", 1)
    site.gone = 0.5
    site.files["CIFAR-10-C.tar"] = TAR
    part = tmp_path / HIDDEN / "CIFAR-10-C.tar.part"
    part.parent.mkdir()
    with pytest.raises(UserError, match=r"the connection broke \(.*timed out\).*run the same command again"):
        bring(published(site), tmp_path)
    assert 0 < part.stat().st_size < len(TAR)


def test_no_network_is_one_line(tmp_path: Path) -> None:
    with serve(Website()) as gone:
        file = published(gone)
    with pytest.raises(UserError, match=r"no connection \(.*refused\)"):
        bring(file, tmp_path)


def test_another_checksum_is_refused_and_not_resumed(site: Website, tmp_path: Path) -> None:
    site.files["CIFAR-10-C.tar"] = TAR[:-1] + b"!"
    with pytest.raises(UserError, match=r"md5 \w{32}, but \w{32} is published: the file was damaged .* was removed"):
        bring(published(site), tmp_path)
    assert (visible(tmp_path), list((tmp_path / HIDDEN).glob("*.part"))) == ([], [])
    site.files["CIFAR-10-C.tar"] = TAR
    bring(published(site), tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


def test_another_size_is_refused_before_a_byte_is_kept(site: Website, tmp_path: Path) -> None:
    site.files["CIFAR-10-C.tar"] = TAR + bytes(10)
    with pytest.raises(UserError, match=r"the server's file has 92,170 bytes, the published one 92,160"):
        bring(published(site), tmp_path)
    assert not list((tmp_path / HIDDEN).glob("*.part"))


def test_a_server_that_states_no_length_is_held_to_the_published_one(site: Website, tmp_path: Path) -> None:
    site.states_length = False
    site.files["CIFAR-10-C.tar"] = TAR + bytes(10)
    with pytest.raises(UserError, match=r"the server sends more than 92,160 bytes"):
        bring(published(site), tmp_path)
    assert visible(tmp_path) == []


def test_an_unpublished_checksum_is_recorded_and_held_to(site: Website, tmp_path: Path) -> None:
    file = published(site, bytes=None, md5="")
    brought = bring(file, tmp_path)
    assert (brought.is_published, brought.checksum) == (False, f"sha256 {hashlib.sha256(TAR).hexdigest()}")
    (tmp_path / "CIFAR-10-C").rename(tmp_path / "old")
    site.files["CIFAR-10-C.tar"] = archives.tar({"CIFAR-10-C/fog.npy": b"new"})
    with pytest.raises(UserError, match=r"but it was \w{64} when it was fetched before: delete .*json to accept it"):
        bring(file, tmp_path)
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.json").unlink()
    bring(file, tmp_path)
    assert (tmp_path / "CIFAR-10-C" / "fog.npy").read_bytes() == b"new"


@pytest.mark.parametrize("bad", [b"no tar at all" * 100, archives.tar({"../evil": b"x"})], ids=["damaged", "outside"])
def test_a_bad_archive_without_a_checksum_binds_no_later_download(site: Website, tmp_path: Path, bad: bytes) -> None:
    """The server may have sent something else than the dataset: nobody can tell before it is unpacked."""
    site.files["CIFAR-10-C.tar"] = bad
    file = published(site, bytes=None, md5="")
    with pytest.raises(UserError, match="the file was removed, run the same command again"):
        bring(file, tmp_path)
    site.files["CIFAR-10-C.tar"] = TAR
    bring(file, tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


def test_a_tar_for_a_loader_that_reads_tars_stays_packed(site: Website, tmp_path: Path) -> None:
    file = PublishedFile(f"{site.address}/CIFAR-10-C.tar", "ImageNet-C/CIFAR-10-C.tar", same_as=("fog", "snow"))
    bring(file, tmp_path)
    assert (tmp_path / "ImageNet-C" / "CIFAR-10-C.tar").read_bytes() == TAR
    (tmp_path / "ImageNet-C" / "CIFAR-10-C.tar").unlink()
    (tmp_path / "ImageNet-C" / "fog").mkdir()
    assert not bringing.is_there(file, tmp_path)
    (tmp_path / "ImageNet-C" / "snow").mkdir()
    assert bringing.is_there(file, tmp_path), "all of its folders are there"


def test_a_mirror_has_the_same_names(site: Website, tmp_path: Path) -> None:
    site.files = {"lab/CIFAR-10-C.tar": TAR}
    file = published(site)
    with pytest.raises(UserError, match="404"):
        bring(file, tmp_path)
    bring(file, tmp_path, mirror=f"{site.address}/lab/")
    assert visible(tmp_path) == ["CIFAR-10-C"]
    with pytest.raises(UserError, match="--mirror lab: expected an address that starts with http"):
        bring(file, tmp_path / "other", mirror="lab")


def test_redirects_are_followed_with_their_range(site: Website, tmp_path: Path) -> None:
    """Zenodo, GitHub and the Hugging Face hub all answer with another address."""
    site.files, site.moved = {"stored/7": TAR}, {"CIFAR-10-C.tar": "stored/7"}
    site.cut_after = 50_000
    bring(published(site), tmp_path)
    wanted = [
        ("CIFAR-10-C.tar", ""),
        ("stored/7", ""),
        ("CIFAR-10-C.tar", "bytes=50000-"),
        ("stored/7", "bytes=50000-"),
    ]
    assert site.bodies == wanted
    assert visible(tmp_path) == ["CIFAR-10-C"]


SCRIPT = """
import hashlib, sys
from pathlib import Path
from tta_bench.download.bring import bring
from tta_bench.download.table import PublishedFile
address, size, md5, root = sys.argv[1:]
brought = bring(PublishedFile(address, "CIFAR-10-C", bytes=int(size), md5=md5), Path(root))
print(brought.was_there)
"""


def start(site: Website, root: Path) -> subprocess.Popen[str]:
    """A process that brings the tar."""
    file = published(site)
    words = [file.address, str(file.bytes), file.md5, str(root)]
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *words], stdout=subprocess.PIPE, text=True)


def test_a_killed_process_leaves_what_the_next_one_continues(site: Website, tmp_path: Path) -> None:
    part = tmp_path / HIDDEN / "CIFAR-10-C.tar.part"
    site.gone = 60.0  # half of the file, then silence
    process = start(site, tmp_path)
    deadline = time.monotonic() + 30
    while transfer.size_of(part) < 40_000 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert visible(tmp_path) == []
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.unpacked" / "half").mkdir(parents=True)  # as if killed while unpacking
    held, site.gone = part.stat().st_size, 0.0
    bring(published(site), tmp_path)
    assert site.bodies[-1] == ("CIFAR-10-C.tar", f"bytes={held}-")
    assert sorted(path.name for path in (tmp_path / "CIFAR-10-C").iterdir()) == ["fog.npy", "labels.npy"]
    assert not list((tmp_path / HIDDEN).glob("*.unpacked"))


def test_many_processes_fetch_a_file_once(site: Website, tmp_path: Path) -> None:
    processes = [start(site, tmp_path) for _ in range(3)]
    said = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert sorted(said) == ["False", "True", "True"]
    assert len(site.bodies) == 1


def test_too_little_disk_is_refused_before_a_byte_is_kept(
    site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "free", lambda folder: len(TAR) - 1)
    with pytest.raises(UserError, match=r"CIFAR-10-C.tar needs 92,160 bytes, but .* has only 92,159 bytes left"):
        bring(published(site), tmp_path)
    assert visible(tmp_path) == []


def test_a_disk_that_fills_up_keeps_what_arrived(
    site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    import signal

    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))  # the kernel then refuses as a full disk does
    try:
        with pytest.raises(UserError, match=r"\.part cannot be written \(File too large\): make room and run the same"):
            bring(published(site), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert visible(tmp_path) == []
    bring(published(site), tmp_path)
    assert site.bodies[-1][1].startswith("bytes="), "it continues"


def test_a_folder_without_permission_is_named(site: Website, tmp_path: Path) -> None:
    with (
        denied(tmp_path, 0o500),
        pytest.raises(UserError, match=r"\.downloads cannot be written \(Permission denied\)"),
    ):
        bring(published(site), tmp_path)
    assert site.seen == []


def test_a_folder_that_cannot_be_written_is_named(site: Website, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file.* cannot be written \(Not a directory\)"):
        bring(published(site), tmp_path / "file")


def test_a_name_in_two_places_is_refused(site: Website, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a dataset's own folder: pass"):
        bring(published(site), tmp_path / "cifar-10-c")
    (tmp_path / "cifar-10-C").mkdir()
    with pytest.raises(UserError, match="cifar-10-C exists beside the expected CIFAR-10-C: rename it"):
        bring(published(site), tmp_path)
    assert site.seen == []


def test_two_processes_fetch_a_file_once(site: Website, tmp_path: Path) -> None:
    """Threads hold the lock as processes do: each has its own lock object and file handle."""
    site.wait = threading.Event()
    waits: list[int] = []
    results: list[bool] = []

    def fetch() -> None:
        brought = bring(published(site), tmp_path, on_wait=lambda: (waits.append(1), site.wait.set())[0])  # type: ignore
        results.append(brought.was_there)

    threads = [threading.Thread(target=fetch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sorted(results), len(waits), len(site.bodies)) == ([False, True], 1, 1)


def test_a_stranger_s_folder_is_never_replaced(site: Website, tmp_path: Path) -> None:
    def appear(stage: str, done: int, total: int | None) -> None:
        (tmp_path / "CIFAR-10-C").mkdir(exist_ok=True)

    with pytest.raises(UserError, match="CIFAR-10-C has appeared meanwhile and is left as it is"):
        bring(published(site), tmp_path, on_progress=appear)
    assert list((tmp_path / "CIFAR-10-C").iterdir()) == []
