"""A transfer from a real server that breaks off, refuses or changes its file continues, or says why not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support import archives
from tests.support.downloads import ARRAYS, TAR, published, start, visible
from tests.support.servers import Website, serve
from tta_bench.download import transfer
from tta_bench.download.fetch import HIDDEN, fetch_file
from tta_bench.errors import UserError


def test_a_broken_transfer_continues_by_itself(website: Website, tmp_path: Path) -> None:
    website.cut_after = 30_000
    fetch_file(published(website), tmp_path)
    starts = [int(wanted.removeprefix("bytes=").rstrip("-") or 0) for _, wanted in website.bodies]
    assert starts == list(range(0, len(TAR), 30_000))


def test_a_failed_transfer_continues_in_the_next_call(website: Website, tmp_path: Path) -> None:
    part = tmp_path / HIDDEN / "CIFAR-10-C.tar.part"
    part.parent.mkdir()
    part.write_bytes(TAR[:33_333])
    fetch_file(published(website), tmp_path)
    assert website.bodies == [("CIFAR-10-C.tar", "bytes=33333-")]
    assert (tmp_path / "CIFAR-10-C" / "fog.npy").read_bytes() == ARRAYS["CIFAR-10-C/fog.npy"]


def test_a_server_that_sends_nothing_more_keeps_what_arrived(website: Website, tmp_path: Path) -> None:
    website.cut_after = 0
    part = tmp_path / HIDDEN / "CIFAR-10-C.tar.part"
    part.parent.mkdir()
    part.write_bytes(TAR[:100])
    with pytest.raises(UserError, match=r"ended after 100 of 92,160 bytes; 100 bytes are kept, run the same command"):
        fetch_file(published(website), tmp_path)
    assert len(website.bodies) == transfer.TRIES
    assert (part.read_bytes(), visible(tmp_path)) == (TAR[:100], [])


def test_a_server_without_ranges_starts_from_the_first_byte(website: Website, tmp_path: Path) -> None:
    website.ranges = False
    (tmp_path / HIDDEN).mkdir()
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.part").write_bytes(b"x" * 500)
    fetch_file(published(website), tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


def test_a_file_that_changed_on_the_server_starts_again(website: Website, tmp_path: Path) -> None:
    """Without a published checksum, bytes of two versions would otherwise become one file."""
    file = published(website, bytes=None, md5="")
    older = archives.tar({name: bytes(len(body)) for name, body in ARRAYS.items()})
    website.files["CIFAR-10-C.tar"], website.cut_after = older, 30_000
    monkey = pytest.MonkeyPatch()
    monkey.setattr(transfer, "TRIES", 1)

    def change(stage: str, done: int, total: int | None) -> None:
        if done == 30_000:
            website.files["CIFAR-10-C.tar"], website.cut_after = TAR, None

    fetch_file(file, tmp_path, on_progress=change)
    monkey.undo()
    assert (tmp_path / "CIFAR-10-C" / "fog.npy").read_bytes() == ARRAYS["CIFAR-10-C/fog.npy"]


def test_a_complete_part_is_only_checked(website: Website, tmp_path: Path) -> None:
    (tmp_path / HIDDEN).mkdir()
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.part").write_bytes(TAR)
    fetch_file(published(website), tmp_path)
    assert (website.seen, visible(tmp_path)) == ([], ["CIFAR-10-C"])
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.part").write_bytes(TAR)
    (tmp_path / "CIFAR-10-C").rename(tmp_path / "elsewhere")
    fetch_file(published(website, bytes=None), tmp_path)  # the server answers 416: nothing follows
    assert website.bodies == [("CIFAR-10-C.tar", f"bytes={len(TAR)}-")]


def test_a_part_that_is_too_long_is_fetched_again(website: Website, tmp_path: Path) -> None:
    (tmp_path / HIDDEN).mkdir()
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.part").write_bytes(TAR + b"more")
    fetch_file(published(website), tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


@pytest.mark.parametrize(
    ("errors", "tries", "message"),
    [
        ([404], 1, "the server answered 404 Not Found: the file has moved; --mirror URL takes it from another server"),
        ([403], 1, "the server answered 403 Forbidden"),
        ([500] * 9, 4, "the server answered 500 Internal Server Error"),
    ],
)
def test_a_refusal_is_one_line(website: Website, tmp_path: Path, errors: list[int], tries: int, message: str) -> None:
    website.errors = list(errors)
    with pytest.raises(UserError) as caught:
        fetch_file(published(website), tmp_path)
    assert str(caught.value) == f"{website.address}/CIFAR-10-C.tar: {message}"
    assert (len(website.bodies), visible(tmp_path)) == (tries, [])


def test_a_busy_server_is_asked_again(website: Website, tmp_path: Path) -> None:
    website.errors = [503, 429]
    fetch_file(published(website), tmp_path)
    assert visible(tmp_path) == ["CIFAR-10-C"]


def test_a_web_page_is_not_a_dataset(website: Website, tmp_path: Path) -> None:
    website.page = True
    with pytest.raises(UserError, match="the server sent a web page instead of the file"):
        fetch_file(published(website), tmp_path)
    assert not list((tmp_path / HIDDEN).glob("*.part"))


def test_a_silent_server_is_left(website: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT", 0.1)
    monkeypatch.setattr(transfer, "TRIES", 1)
    website.gone = 0.5
    website.files["CIFAR-10-C.tar"] = TAR
    part = tmp_path / HIDDEN / "CIFAR-10-C.tar.part"
    part.parent.mkdir()
    with pytest.raises(UserError, match=r"the connection broke \(.*timed out\).*run the same command again"):
        fetch_file(published(website), tmp_path)
    assert 0 < part.stat().st_size < len(TAR)


@pytest.mark.usefixtures("hurried")
def test_no_network_is_one_line(tmp_path: Path) -> None:
    with serve(Website()) as gone:
        file = published(gone)
    with pytest.raises(UserError, match=r"no connection \(.*refused\)"):
        fetch_file(file, tmp_path)


def test_a_mirror_has_the_same_names(website: Website, tmp_path: Path) -> None:
    website.files = {"lab/CIFAR-10-C.tar": TAR}
    file = published(website)
    with pytest.raises(UserError, match="404"):
        fetch_file(file, tmp_path)
    fetch_file(file, tmp_path, mirror=f"{website.address}/lab/")
    assert visible(tmp_path) == ["CIFAR-10-C"]
    with pytest.raises(UserError, match="--mirror lab: expected an address that starts with http"):
        fetch_file(file, tmp_path / "other", mirror="lab")


def test_redirects_are_followed_with_their_range(website: Website, tmp_path: Path) -> None:
    """Zenodo, GitHub and the Hugging Face hub all answer with another address."""
    website.files, website.moved = {"stored/7": TAR}, {"CIFAR-10-C.tar": "stored/7"}
    website.cut_after = 50_000
    fetch_file(published(website), tmp_path)
    wanted = [
        ("CIFAR-10-C.tar", ""),
        ("stored/7", ""),
        ("CIFAR-10-C.tar", "bytes=50000-"),
        ("stored/7", "bytes=50000-"),
    ]
    assert website.bodies == wanted
    assert visible(tmp_path) == ["CIFAR-10-C"]


def test_a_killed_process_leaves_what_the_next_one_continues(website: Website, tmp_path: Path) -> None:
    part = tmp_path / HIDDEN / "CIFAR-10-C.tar.part"
    website.gone = 60.0  # half of the file, then silence
    process = start(website, tmp_path)
    deadline = time.monotonic() + 30
    while transfer.size_of(part) < 40_000 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert visible(tmp_path) == []
    (tmp_path / HIDDEN / "CIFAR-10-C.tar.unpacked" / "half").mkdir(parents=True)  # as if killed while unpacking
    held, website.gone = part.stat().st_size, 0.0
    fetch_file(published(website), tmp_path)
    assert website.bodies[-1] == ("CIFAR-10-C.tar", f"bytes={held}-")
    assert sorted(path.name for path in (tmp_path / "CIFAR-10-C").iterdir()) == ["fog.npy", "labels.npy"]
    assert not list((tmp_path / HIDDEN).glob("*.unpacked"))


def test_a_disk_that_fills_up_keeps_what_arrived(
    website: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    import signal

    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))  # the kernel then refuses as a full disk does
    try:
        with pytest.raises(UserError, match=r"\.part cannot be written \(File too large\): make room and run the same"):
            fetch_file(published(website), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert visible(tmp_path) == []
    fetch_file(published(website), tmp_path)
    assert website.bodies[-1][1].startswith("bytes="), "it continues"
