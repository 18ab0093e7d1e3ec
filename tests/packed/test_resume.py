"""A packed run can be gone on with: its cells are copied into a run folder, and nothing that is there changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.folders import save
from tests.support.records import make_failure, make_record
from tta_bench.packed.pack import pack
from tta_bench.records.store import Store


def files(folder: Path) -> dict[str, bytes]:
    found = (path for name in ("cells", "commands", "warnings") for path in (folder / name).glob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_unpacking_gives_the_files_of_the_run(run: Path, tmp_path: Path, cli: Cli) -> None:
    Store.open(run).note_warnings({"weights": "careful"})
    pack(run, tmp_path / "run.zip")
    status, out, _ = cli("unpack", tmp_path / "run.zip", "--out", tmp_path / "again")
    assert (status, "Copied 4 cells" in out) == (0, True)
    assert files(tmp_path / "again") == files(run)
    assert "Copied 0 cells" in (out := cli("unpack", tmp_path / "run.zip", "--out", run)[1])
    assert "4 were there already" in out


def test_rows_of_several_runs_are_joined_and_those_that_are_there_stay(run: Path, tmp_path: Path, cli: Cli) -> None:
    pack(run, tmp_path / "sources.zip", ["source"])
    folder = Store.create(tmp_path / "folder", "s")
    save(folder, make_record("third", 0.5, task="fog"))
    kept = files(folder.folder)
    assert cli("unpack", tmp_path / "sources.zip", run, "--out", folder.folder)[0] == 0
    assert {record.label for record in folder.records()} == {"source", "better", "third"}
    assert files(folder.folder).items() >= kept.items()


def test_failed_cells_are_left_to_run_again(run: Path, tmp_path: Path, cli: Cli) -> None:
    Store.open(run).save(make_failure("broken", "no memory"), None)
    assert cli("unpack", run, "--out", tmp_path / "out")[0] == 0
    assert "broken" not in {record.label for record in Store.open(tmp_path / "out").records()}


def test_run_reuses_what_was_unpacked(tmp_path: Path, cli: Cli) -> None:
    words = ("run", "--suite", "digits-c-5", "--methods", "source", "--tasks", "fog", "--limit", "64", "--seeds", "0")
    assert cli(*words, "--out", tmp_path / "first")[0] == 0
    assert cli("pack", tmp_path / "first", "--out", tmp_path / "run.zip", "--seeds", "0")[0] == 0
    assert cli("unpack", tmp_path / "run.zip", "--out", tmp_path / "second")[0] == 0
    before = files(tmp_path / "second")
    assert cli(*words, "--out", tmp_path / "second")[0] == 0
    assert {name: content for name, content in files(tmp_path / "second").items() if name in before} == before
    assert {name for name in files(tmp_path / "second") if name.startswith("cells")} == {
        name for name in before if name.startswith("cells")
    }


@pytest.mark.parametrize("which", ["other suite", "damaged", "no run", "another folder"])
def test_what_cannot_be_joined_is_one_line_and_changes_nothing(which: str, run: Path, tmp_path: Path, cli: Cli) -> None:
    runs, out = [run], tmp_path / "out"
    if which == "other suite":
        save(other := Store.create(tmp_path / "other", "t"), make_record("source", suite="t"))
        runs.append(other.folder)
    elif which == "damaged":
        next((run / "cells").glob("*.npy")).write_bytes(b"x")
    elif which == "no run":
        runs = [tmp_path / "gone.zip"]
    else:
        save(Store.create(out, "t"), make_record("source", suite="t"))
    before = files(out)
    status, _, err = cli("unpack", *runs, "--out", out)
    words = {"other suite": "'s': unpack them apart", "damaged": "its digest differs", "no run": "is not a run folder"}
    assert (status, err.count("\n"), words.get(which, "belongs to suite 't'") in err) == (2, 1, True), err
    assert files(out) == before
