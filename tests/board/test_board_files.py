"""A submission's files are a stranger's: names, links, sizes and damage are found before anything is unpacked."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from tests.support.archives import zipped
from tests.support.boards import refused
from tta_bench.board.submission import RUN

pytestmark = pytest.mark.usefixtures("small_board")


def members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


BAD_NAMES = [
    "../outside",
    "/tmp/outside",
    "cells/../../outside",
    "cells\\x.json",
    "cells/x.py",
    ".hidden",
    "report/a.csv",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_no_packed_run_has_are_refused(good: Path, tmp_path: Path, name: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    (good / RUN).write_bytes(zipped({**members(good / RUN), name: b"x"}))
    refused(good, "entry", "which `tta-bench pack` never writes: refused")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_in_the_zip_is_refused(good: Path) -> None:
    (good / RUN).write_bytes(zipped({**members(good / RUN), "cells/a.json": b"/etc/passwd"}, link="cells/a.json"))
    refused(good, "entry", "'cells/a.json' is a link or a device, not a file: refused")


def test_a_link_instead_of_the_zip_is_refused(good: Path, tmp_path: Path) -> None:
    (good / RUN).rename(tmp_path / "elsewhere.zip")
    (good / RUN).symlink_to(tmp_path / "elsewhere.zip")
    refused(good, "entry", "has no run.zip")


def test_two_files_of_one_name_are_refused(good: Path) -> None:
    out = io.BytesIO((good / RUN).read_bytes())
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("manifest.json", b"{}")
    (good / RUN).write_bytes(out.getvalue())
    refused(good, "entry", "has two files named 'manifest.json'")


def test_predictions_of_4_gib_take_no_memory(good: Path) -> None:
    """A zip of 4 MB whose predictions unpack to 4 GiB, by what its index says."""
    content = bytearray(zipped({**members(good / RUN), "cells/zeros.npy": bytes(2**20)}))
    at = content.rindex(b"PK\1\2", 0, content.rindex(b"cells/zeros.npy"))
    struct.pack_into("<L", content, at + 24, 2**32 - 2)
    (good / RUN).write_bytes(content)
    tracemalloc.start()
    refused(good, "entry", "'cells/zeros.npy' is 4,294,967,294 bytes long, expected at most 268,435,456")
    assert tracemalloc.get_traced_memory()[1] < 2**25
    tracemalloc.stop()


def test_a_huge_index_is_refused_before_it_is_read(good: Path) -> None:
    content = (good / RUN).read_bytes()
    size, start = struct.unpack("<4s4H2LH", content[-22:])[5:7]
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 60_000, 60_000, size, start, 0)
    (good / RUN).write_bytes(content[:-22] + end)
    refused(good, "entry", "has 60,000 files, expected at most 20,000")


@pytest.mark.parametrize("keep_bytes", [0, 100, -1, -22])
def test_a_cut_zip_is_refused(good: Path, keep_bytes: int) -> None:
    content = (good / RUN).read_bytes()
    (good / RUN).write_bytes(content[:keep_bytes])
    refused(good, "entry", "not a packed run, or cut short")


def test_flipped_bits_in_the_zip_are_refused(good: Path) -> None:
    content = bytearray((good / RUN).read_bytes())
    content[len(content) // 2] ^= 255
    (good / RUN).write_bytes(content)
    refused(good, "entry", "run.zip")


def test_swapped_predictions_are_refused(good: Path) -> None:
    files = members(good / RUN)
    first, second = [name for name in files if name.startswith("cells/mine") and name.endswith(".columns")][:2]
    files[first], files[second] = files[second], files[first]
    (good / RUN).write_bytes(zipped(files))
    refused(good, "files", "damaged, its digest differs")


def test_a_renamed_record_is_refused(good: Path) -> None:
    files = members(good / RUN)
    (name, *_) = [name for name in files if name.startswith("cells/mine") and name.endswith(".json")]
    files["cells/best--contrast--seed0--000000000000.json"] = files.pop(name)
    (good / RUN).write_bytes(zipped(files))
    refused(good, "files", "is the record of another cell")
