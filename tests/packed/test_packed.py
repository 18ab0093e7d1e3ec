"""A packed run is as good as its folder, wherever it is; a stranger's file is data."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tta_bench
from tests.support.cli import Cli
from tests.support.folders import make_run, save
from tests.support.records import make_failure, make_record
from tests.support.servers import Website, serve
from tta_bench.errors import UserError
from tta_bench.packed.address import is_folder, run_folder
from tta_bench.packed.pack import pack
from tta_bench.records.store import Store


@pytest.fixture
def packed(run: Path, tmp_path: Path) -> Path:
    pack(run, tmp_path / "packed.zip")
    return tmp_path / "packed.zip"


def test_the_same_folder_gives_the_same_bytes(run: Path, packed: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "copy")
    for path in (tmp_path / "copy" / "cells").iterdir():
        path.chmod(0o600)
        path.touch()
    (tmp_path / "copy" / "report").mkdir()
    (tmp_path / "copy" / "report" / "x.csv").write_text("not packed")
    pack(tmp_path / "copy", tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()
    there = sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file())
    assert sorted(path.relative_to(run_folder(packed)) for path in run_folder(packed).rglob("*.*")) == there


@pytest.mark.parametrize("words", [("report", "--format", "terminal"), ("compare", "--a", "source", "--b", "better")])
def test_tables_are_those_of_the_folder(run: Path, packed: Path, cli: Cli, words: tuple[str, ...]) -> None:
    verb, *rest = words
    assert cli(verb, packed, *rest) == cli(verb, run, *rest)


def test_verify_and_frames_read_it(run: Path, packed: Path, cli: Cli) -> None:
    assert cli("verify", packed)[0] == cli("verify", run)[0]
    assert tta_bench.frame(packed).equals(tta_bench.frame(run))
    assert tta_bench.predictions(str(packed)).equals(tta_bench.predictions(run))


def test_a_packed_run_has_no_report_folder(packed: Path, cli: Cli, tmp_path: Path) -> None:
    assert cli("report", packed)[0] == 0
    assert "a packed run: pass --out DIR" in cli("report", packed, "--format", "md")[2]
    assert cli("report", packed, "--out", tmp_path / "out")[0] == 0
    assert (tmp_path / "out" / "report.md").exists()


def test_figures_are_those_of_the_folder(run: Path, packed: Path, cli: Cli, tmp_path: Path) -> None:
    assert "a packed run: pass --out FILE" in cli("figure", packed, "pareto")[2]
    for place, out in ((packed, "of_packed.png"), (run, "of_folder.png")):
        assert cli("figure", place, "pareto", "--out", tmp_path / out)[0] == 0
    assert (tmp_path / "of_packed.png").read_bytes() == (tmp_path / "of_folder.png").read_bytes()


def test_some_rows_can_be_packed(run: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("pack", run, "--out", tmp_path / "some.zip", "--methods", "source")[0] == 0
    assert {record.label for record in Store.open(run_folder(tmp_path / "some.zip")).records()} == {"source"}
    assert "did you mean 'better'?" in cli("pack", run, "--out", tmp_path / "x.zip", "--methods", "bettr")[2]


def test_composed_streams_can_be_packed(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    save(store, make_record("source", scenario="continual+recurring:2+dirichlet:0.1,slots=10", tasks=("fog", "snow")))
    pack(store.folder, tmp_path / "run.zip")
    (record,) = Store.open(run_folder(tmp_path / "run.zip")).records()
    assert "continual+recurring-2+dirichlet-0.1-slots-10" in record.cell.slug


def test_what_cannot_be_packed_is_one_line(run: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "empty").mkdir()
    Store.create(tmp_path / "fresh", "s")
    failed = make_run(tmp_path / "failed")
    Store.open(failed).save(make_failure("broken", "no memory"), None)
    damaged = make_run(tmp_path / "damaged")
    next((damaged / "cells").glob("*.npy")).write_bytes(b"x")
    for folder, words in (
        (tmp_path / "nothing", "is not a folder"),
        (tmp_path / "empty", "no manifest.json"),
        (tmp_path / "fresh", "no records"),
        (failed, "failed (no memory): run the same command again"),
        (damaged, "damaged, its digest differs"),
    ):
        status, _, err = cli("pack", folder, "--out", tmp_path / "out.zip")
        assert (status, err.count("\n"), words in err) == (2, 1, True), err
        assert not (tmp_path / "out.zip").exists()
    assert cli("pack", run, "--out", run / "manifest.json" / "x.zip")[0] == 2


def test_a_web_address_is_read_once(packed: Path, run: Path, cli: Cli) -> None:
    with serve(Website({"runs/packed.zip": packed.read_bytes()})) as site:
        address = f"{site.address}/runs/packed.zip?raw=true"
        site.files["runs/packed.zip?raw=true"] = packed.read_bytes()
        terminal = ("--format", "terminal")
        assert cli("report", address, *terminal) == cli("report", run, *terminal)
        assert tta_bench.frame(address).equals(tta_bench.frame(run))
        assert len(site.bodies) == 1


def test_bad_addresses_are_one_line(packed: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Website({"x.zip": packed.read_bytes(), "no.zip": b"no zip"})) as site:
        for name, words in (("gone.zip", "404"), ("no.zip", "not a packed run, or cut short")):
            status, _, err = cli("verify", f"{site.address}/{name}")
            assert (status, err.count("\n"), words in err, "--mirror" in err) == (2, 1, True, False), err
        site.page = True
        assert "sent a web page instead of the file" in cli("report", f"{site.address}/page.zip")[2]


@pytest.mark.parametrize("states_length", [True, False])
def test_an_endless_answer_is_cut(packed: Path, states_length: bool) -> None:
    with (
        serve(Website({"x.zip": packed.read_bytes()}, states_length=states_length)) as site,
        pytest.raises(UserError, match=r"x.zip: has more than 1,000 bytes: refused"),
    ):
        run_folder(f"{site.address}/x.zip", most=1000)


def test_a_file_that_is_too_long_is_refused(packed: Path) -> None:
    with pytest.raises(UserError, match="bytes long, expected at most 1,000"):
        run_folder(packed, most=1000)


def test_a_folder_stays_where_it_is(run: Path) -> None:
    assert run_folder(run) == run
    assert is_folder(run)
    assert not is_folder("https://example.org/run.zip")
