"""Archives from strangers: what is unpacked, and what is refused."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.support import archives
from tta_bench.download.unpack import top_folder, unpack, unpacked_size
from tta_bench.errors import UserError

GOOD = {"set/a/1.jpg": b"one" * 1000, "set/b/2.jpg": b"", "./set/b/3.jpg": b"three"}
PLAIN = {name.removeprefix("./"): body for name, body in GOOD.items()}
JUNK = {"__MACOSX/set/._1.jpg": b"x", "set/._2.jpg": b"x", "set/.DS_Store": b"x"}


def unpacked(tmp_path: Path, content: bytes) -> dict[str, bytes]:
    """The files of an archive, unpacked."""
    (tmp_path / "archive").write_bytes(content)
    into = tmp_path / "into"
    into.mkdir()
    unpack(tmp_path / "archive", into)
    return {str(file.relative_to(into)): file.read_bytes() for file in into.rglob("*") if file.is_file()}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tars_are_unpacked(tmp_path: Path, mode: str) -> None:
    folder = tarfile.TarInfo("set/a")
    folder.type = tarfile.DIRTYPE
    assert unpacked(tmp_path, archives.tar({"set/a": folder, **GOOD, **JUNK}, mode)) == PLAIN


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_read_in_every_format(tmp_path: Path, form: int) -> None:
    name = "set/" + "a" * 90 + "/" + "b" * 90 + ".jpg"
    with tarfile.open(tmp_path / "archive", "w", format=form) as content:
        info = tarfile.TarInfo(name)
        content.addfile(info)
    assert unpacked(tmp_path, (tmp_path / "archive").read_bytes()) == {name: b""}


def test_zips_are_unpacked(tmp_path: Path) -> None:
    assert unpacked(tmp_path, archives.zipped({"set/": b"", **PLAIN, **JUNK})) == PLAIN
    assert unpacked_size(tmp_path / "archive") == sum(map(len, [*PLAIN.values(), *JUNK.values()]))


def test_a_member_is_written_whatever_its_stored_mode(tmp_path: Path) -> None:
    info = tarfile.TarInfo("set/secret.jpg")
    info.mode = 0o4000  # set-uid, unreadable
    unpacked(tmp_path, archives.tar({"set/secret.jpg": info}))
    assert (tmp_path / "into" / "set" / "secret.jpg").stat().st_mode & 0o7400 == 0o400


@pytest.mark.parametrize("name", ["../out.jpg", "/tmp/out.jpg", "set/../../out.jpg", "set\\..\\out.jpg", "C:/out.jpg"])
@pytest.mark.parametrize("pack", [archives.tar, archives.zipped])
def test_a_name_outside_the_folder_is_refused(tmp_path: Path, name: str, pack: object) -> None:
    content = pack({"set/1.jpg": b"1", name: b"2"})  # type: ignore[operator]
    with pytest.raises(UserError, match="archive: has a file named '.*out.jpg', which is outside its folder: refused"):
        unpacked(tmp_path, content)
    assert not list(tmp_path.rglob("out.jpg"))


@pytest.mark.parametrize(
    ("kind", "target"),
    [(tarfile.SYMTYPE, "/etc"), (tarfile.SYMTYPE, "1.jpg"), (tarfile.LNKTYPE, "../x"), (tarfile.CHRTYPE, ""),
     (tarfile.FIFOTYPE, "")],
)  # fmt: skip
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes, target: str) -> None:
    content = archives.tar(
        {"set/1.jpg": b"1", "set/link": archives.special("set/link", kind, target), "set/link/x": b"2"}
    )
    with pytest.raises(UserError, match="'set/link' is a link or a device, not a file: refused"):
        unpacked(tmp_path, content)


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'set/link' is a link or a device, not a file: refused"):
        unpacked(tmp_path, archives.zipped({"set/link": b"/etc"}, link="set/link"))


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has two files named 'set/1.jpg': refused"):
        unpacked(tmp_path, archives.tar({"set/1.jpg": b"1", "./set/1.jpg": b"2"}))


@pytest.mark.parametrize(
    "content", [b"", b"no archive at all", archives.tar(GOOD, "w:gz")[:-20], archives.tar(GOOD)[:2000]]
)
def test_a_damaged_archive_is_one_line(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UserError, match=r"archive: not a readable archive \(.+\)"):
        unpacked(tmp_path, content)


def test_a_damaged_zip_is_one_line(tmp_path: Path) -> None:
    content = bytearray(archives.zipped({"set/1.jpg": bytes(range(256)) * 20}))
    content[60] ^= 0xFF
    with pytest.raises(UserError, match="archive: not a readable archive"):
        unpacked(tmp_path, bytes(content))


def test_the_top_folder_is_the_named_or_the_only_one(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert top_folder(tmp_path, "set", Path("a.tar")).name == "other"
    (tmp_path / "set").mkdir()
    assert top_folder(tmp_path, "set", Path("a.tar")).name == "set"
    with pytest.raises(UserError, match="a.tar: expected one folder 'third' in it, found other, set"):
        top_folder(tmp_path, "third", Path("a.tar"))
