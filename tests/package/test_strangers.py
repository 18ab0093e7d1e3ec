"""A stranger's folder is data: nothing in it is run, waited for, followed, or written anywhere but below the output."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tta_bench
from tests.support.cli import Cli
from tests.support.folders import make_run
from tests.support.records import changed, keep, make_cell, make_record, predict
from tta_bench.errors import UserError
from tta_bench.files import read_whole
from tta_bench.records.predictions import ROW, _header
from tta_bench.records.store import Store
from tta_bench.report.render import csv_lines
from tta_bench.report.runs import Runs
from tta_bench.report.stats import dense
from tta_bench.verify.folders import verify

EVIL = "=cmd()\x1b[2J<script>alert(1)</script>\u202e"


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """A test that waits for a pipe fails instead."""

    def give_up(number: int, frame: object) -> None:
        raise AssertionError("waited for a pipe")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def a_record(store: Store) -> Path:
    return store.record_files()[0]


def some_predictions(store: Store) -> Path:
    return a_record(store).with_suffix(".npy")


def a_command(store: Store) -> Path:
    return next(store.commands.glob("*.json"))


def a_warning(store: Store) -> Path:
    store.note_warnings({"w": "odd"})
    return store.folder / "warnings" / "w.txt"


PLACES = (a_record, some_predictions, a_command, a_warning, lambda store: store.manifest)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "loop"])
def test_what_is_no_plain_file_is_named_and_not_waited_for(
    tmp_path: Path, cli: Cli, place: Callable[[Store], Path], kind: str
) -> None:
    store = Store.open(make_run(tmp_path / "run"))
    path = place(store)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    status, _, err = cli("report", store.folder, "--format", "terminal")
    assert (status, err.count("\n")) == (2, 1)
    with pytest.raises(UserError):
        tta_bench.frame(store.folder)
    assert cli("verify", store.folder)[0] in (1, 2)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UserError, match=r"x: is 1,099,511,627,776 bytes long, expected at most 268,435,456"):
        read_whole(path)


def test_a_record_of_billions_of_images_takes_no_memory(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    record = changed(keep(store, make_record("sar")), samples=2**36)
    path = store.prediction_file(record.cell)
    with path.open("wb") as file:
        file.write(_header(2**36))
        file.truncate(len(_header(2**36)) + 2**36 * ROW.itemsize)
    path.with_suffix(".json").write_bytes(record.to_bytes())
    tracemalloc.start()
    with pytest.raises(UserError, match="bytes long, expected at most"):
        Runs([store.folder])
    assert verify([store.folder])[0].failures
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_image_numbers_beyond_any_dataset_take_no_memory() -> None:
    far = np.array([0, 2**31 - 1], np.int32)
    (index, other), size = dense([far, far[::-1]])
    assert (size, index.tolist(), other.tolist()) == (2, [0, 1], [1, 0])
    near = [np.array([5, 3])]
    assert dense(near) == (near, 6)


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "..", ".", "a/b", "", "x\0y", "x" * 300])
def test_a_suite_that_is_a_path_is_refused(tmp_path: Path, cli: Cli, name: str) -> None:
    store = Store.create(tmp_path / "run", "s")
    keep(store, make_record("sar"))
    cell = make_cell("tent", suite=name)
    content = replace(make_record("tent"), cell=cell, predictions="0" * 64).to_bytes()
    (store.cells / f"{cell.slug}.json").write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    status, _, err = cli("report", store.folder)
    assert status == 2
    assert "cell: suite: expected a name of letters, digits, '-', '_' and '.'" in err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_report_folder_that_leads_elsewhere_is_not_followed(tmp_path: Path, cli: Cli) -> None:
    folder, away = make_run(tmp_path / "run"), tmp_path / "away"
    away.mkdir()
    (folder / "report").symlink_to(away)
    status, _, err = cli("report", folder)
    assert status == 2
    assert "report is a symbolic link" in err
    assert cli("report", folder, "--out", tmp_path / "out")[0] == 0
    assert list(away.iterdir()) == []
    (folder / "figures").symlink_to(away)
    assert cli("figure", folder, "pareto")[0] == 2


def test_a_table_of_its_own_that_leads_elsewhere_is_not_followed(tmp_path: Path, cli: Cli) -> None:
    away = tmp_path / "away"
    away.mkdir()
    folders = []
    for suite in ("one", "two"):
        store = Store.create(tmp_path / suite, suite)
        keep(store, make_record("sar", suite=suite))
        folders.append(store.folder)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "two").symlink_to(away)
    status, _, err = cli("report", *folders, "--out", tmp_path / "out")
    assert (status, "two is a symbolic link" in err) == (2, True)
    assert list(away.iterdir()) == []


def evil_run(folder: Path) -> Path:
    store = Store.create(folder, "s")
    keep(store, make_record("source"))
    record = changed(make_record("tent", 0.6), label=EVIL, remarks=["<img src=x>\x1b]0;title\x07"])
    keep(store, record)
    keep(store, changed(make_record("sar"), status="failed", reason="@SUM(A1)\x1b[31m<b>", label="-1+1"))
    store.note_warnings({"w": "<i>odd</i>\x1b[2J"})
    return folder


def test_names_cannot_move_the_cursor_nor_write_markup(tmp_path: Path, cli: Cli) -> None:
    folder = evil_run(tmp_path / "run")
    _, out, err = cli("report", folder, "--format", "terminal,md,csv,latex,html")
    _, more, _ = cli("compare", folder, "--a", "source", "--b", EVIL, "--out", tmp_path / "compare")
    _, last, refused = cli("compare", folder, "--a", "source", "--b", "x\x1b[2J")
    shown = out + err + more + last + refused
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    page = (folder / "report" / "report.html").read_text()
    for mark in ("<script>alert", "<img", "<b>", "<i>odd"):
        assert mark not in page
    assert "&lt;i&gt;odd" in page
    assert "<script>" not in tta_bench.frame(folder).attrs  # a frame holds names as they are


def test_spreadsheets_run_no_cell_and_numbers_stay_numbers(tmp_path: Path, cli: Cli) -> None:
    folder = evil_run(tmp_path / "run")
    cli("report", folder)
    cli("compare", folder, "--a", "source", "--b", EVIL, "--out", tmp_path / "compare")
    for path in (*(folder / "report").glob("*.csv"), tmp_path / "compare" / "compare.csv"):
        for row in csv.reader(io.StringIO(path.read_text())):
            for cell in row:
                risky = cell.startswith(("=", "+", "-", "@", "\t"))
                assert not risky or float(cell) is not None
    assert csv_lines([["-1.5", "+2", "-1e-3", "-x", "=1", "\t=1", "@a", "–", "+1+1"]]) == (
        "-1.5,+2,-1e-3,'-x,'=1,'=1,'@a,–,'+1+1\n"
    )


@pytest.mark.parametrize("number", ["1e999", "9" * 5000, "NaN", "-Infinity", '"\\ud800"', "[" * 100_000])
def test_numbers_and_texts_that_are_none_are_one_line(tmp_path: Path, number: str) -> None:
    store = Store.create(tmp_path / "run", "s")
    record = keep(store, make_record("sar"))
    path = store.prediction_file(record.cell).with_suffix(".json")
    body = path.read_bytes().rpartition(b'"digest"')[0].replace(b'"ece": 0.5', b'"ece": ' + number.encode())
    path.write_bytes(body + f'"digest": "{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode())
    with pytest.raises(UserError, match="invalid JSON") as caught:
        Runs([store.folder])
    assert len(str(caught.value)) < 600


def test_a_result_counts_once_and_a_clock_decides_nothing(tmp_path: Path) -> None:
    stores = [Store.create(tmp_path / name, "s") for name in "ab"]
    ahead = "2999-01-01T00:00:00+00:00"
    keep(stores[0], make_record("sar", 0.5))
    stores[1].save(replace(make_record("sar"), status="failed", reason="x", finished_at=ahead), None)
    (record,) = Runs([store.folder for store in stores]).records
    assert record.status == "done"


def test_manifests_are_checked(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    keep(store, make_record("sar"), predict([True, False]))
    store.manifest.write_text(json.dumps({"suite": "t"}))
    (finding,) = [f for f in verify([store.folder])[0].failures if f.check == "files"]
    assert finding.text == "belongs to suite 's', its folder to 't'"


@pytest.mark.parametrize("name", ["cells", "claims", "commands", "jobs", "keys", "prepared", "warnings"])
def test_a_run_does_not_write_through_links(name: str, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    Store.create(folder, "s")
    elsewhere.mkdir()
    if (folder / name).is_dir():
        (folder / name).rmdir()
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(UserError, match=f"{name} is a symbolic link"):
        Store.create(folder, "s")
    assert not list(elsewhere.iterdir())
