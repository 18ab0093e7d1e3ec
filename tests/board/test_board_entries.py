"""`board check` on submission.yaml, on the rest of the board, and on the command line."""

from __future__ import annotations

import json
import lzma
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import boards
from tests.support.archives import zipped
from tests.support.boards import ENTRY, changed_run, refused, signed, submit, whole_record, whole_run
from tests.support.cli import Cli
from tests.support.records import changed, changed_cell, keep
from tta_bench.board.check import check
from tta_bench.board.review import Review
from tta_bench.board.site import build
from tta_bench.board.submission import (
    FILE,
    RUN,
    Entry,
    Rerun,
    Retraction,
    read_board,
    read_entry,
    read_submission,
    write_entry,
)
from tta_bench.checked import validate
from tta_bench.errors import UserError
from tta_bench.packed.pack import pack
from tta_bench.published.__main__ import collect
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.records.store import Store

pytestmark = pytest.mark.usefixtures("small_board")


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"chosen_on": ("two-digits",)}, "chosen", "two-digits has contrast, brightness, which the board scores"),
        ({"chosen_on": ("digits-c-3",)}, "chosen", "digits-c-3 has contrast, brightness"),
        ({"chosen_on": ("brightness of my photos",)}, "chosen", "has brightness, which the board scores"),
        ({"settings": {}}, "settings", "row mine: its settings are not declared"),
        ({"settings": {"mine": {"strength": 0.5}}}, "settings", 'declared {"strength": 0.5}, but it ran with'),
        ({"package": "built-in"}, "package", "mine is not built in"),
        ({"date": "2999-01-01"}, "entry", "2999-01-01 is still to come"),
        ({"title": "TODO: what is new"}, "entry", "title: still to be filled in"),
        (
            {"reruns": (Rerun("Ada", "2026-02-01", "a laptop", 3, "bit for bit"),)},
            "others",
            "a new submission says that it ran again",
        ),
    ],
)
def test_a_wrong_entry_is_refused(board_run: Path, tmp_path: Path, changes: Any, name: str, words: str) -> None:
    refused(submit(board_run, tmp_path / "mine", **changes), name, words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("title: Averages", "titel: Averages", "unknown key 'titel'; did you mean 'title'?"),
        ("name: Ada Stranger", "name: <script>alert(1)</script>", "who: name: expected one line of text without"),
        ("https://example.org/ada", "javascript:alert(1)", "who: link: expected an address"),
        ("id: mine", "id: ../../etc", "id: expected lower-case letters"),
        ("id: mine", "id: yours", "id: is 'yours', but its folder is named 'mine'"),
        ("id: mine", "id: !!python/object/apply:os.system [true]", "is not supported"),
        ("division: closed", "division: best", "division: expected 'closed' or 'open', got 'best'"),
        ("date: '2026-01-31'", "date: '2026-02-31'", "there is no 2026-02-31"),
    ],
)
def test_a_malformed_entry_is_refused(good: Path, old: str, new: str, words: str) -> None:
    file = good / FILE
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    refused(good, "entry", words)


@pytest.mark.parametrize("name", ["method.py", "conftest.py", ".github", "run.zip.exe"])
def test_files_beside_the_two_are_refused(good: Path, name: str) -> None:
    (good / name).write_text("raise SystemExit('ran')")
    refused(good, "entry", f"found '{name}'")


def renamed(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    """Somebody else's row under our name, with other confidences, so that no digest is theirs."""
    cell = changed_cell(record.cell, method="mine", settings={"strength": 0.2}, method_code="mine")
    return signed(
        changed(record, cell=cell, label="mine"),
        replace(predictions, confidence=predictions.confidence - np.float32(0.01)),
    )


def test_somebody_elses_run_renamed_is_refused(tmp_path: Path, board: Path) -> None:
    stolen = changed_run(tmp_path / "theirs", tmp_path / "stolen", renamed, "tent", every=True)
    words = "row mine has the same predictions as row tent of bobs, by Bob"
    refused(submit(stolen, tmp_path / "incoming" / "mine"), "others", words, board)


def test_an_id_of_somebody_else_is_refused(board_run: Path, tmp_path: Path, board: Path) -> None:
    refused(submit(board_run, tmp_path / "incoming" / "bobs"), "others", "id bobs is taken, by Bob", board)


def test_changed_scores_of_an_own_entry_are_named(board_run: Path, tmp_path: Path) -> None:
    submit(board_run, tmp_path / "board" / "mine")

    def worse(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
        return signed(record, replace(predictions, prediction=np.zeros_like(predictions.prediction)))

    changed = submit(
        changed_run(board_run, tmp_path / "w", worse, every=True), tmp_path / "new" / "mine", title="Again"
    )
    review, _ = check(changed, read_board(tmp_path / "board"))
    assert review.accepted
    assert "changes of the entry: title" in review.notes
    (note,) = [note for note in review.notes if note.startswith("row mine")]
    assert " on the board, " in note


def test_a_retraction_keeps_the_entry_and_says_why(board_run: Path, tmp_path: Path) -> None:
    reason = Retraction("the labels leaked", "2026-03-01")
    review, _ = check(submit(board_run, tmp_path / "board" / "mine", retraction=reason))
    assert review.accepted
    assert "retracted on 2026-03-01: the labels leaked" in review.notes
    assert read_board(tmp_path / "board")[0].entry.retraction == reason


def other_settings(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, settings={**record.cell.spec.settings, "lr": 1.0}), predictions)


def test_the_closed_division_has_the_suites_settings(tmp_path: Path) -> None:
    theirs = whole_run(tmp_path / "run", ("source", "tent"))
    entry = replace(ENTRY, package="built-in", settings={})
    assert check(submit(theirs, tmp_path / "a" / "tent", entry))[0].accepted
    changed = changed_run(theirs, tmp_path / "changed", other_settings, "tent", every=True)
    own = {"lr": 1.0, "momentum": 0.9, "steps": 1}
    closed = submit(changed, tmp_path / "b" / "tent", entry, settings={"tent": own})
    refused(closed, "settings", 'the suite\'s for tent are {"lr": 0.03}')
    opened = submit(changed, tmp_path / "c" / "tent", entry, settings={"tent": own}, division="open")
    assert check(opened)[0].accepted


def test_weights_that_nobody_knows_are_open_until_a_maintainer_names_them(
    board_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(model: str) -> str:
        raise UserError(f"no published hash of the weights of '{model}'")

    monkeypatch.setattr("tta_bench.verify.reference.published_weights", nothing)
    folder = submit(board_run, tmp_path / "mine")
    review, found = check(folder)
    assert not review.accepted
    assert {point.check for point in review.open} == {"weights"}
    assert "### Not checked here" in review.comment()
    assert check(folder, weights=[found[0][0].cell.found.weights])[0].accepted


def test_bad_input_is_one_line(cli: Cli, tmp_path: Path, board_run: Path) -> None:
    for words, expected in (
        (("check", tmp_path / "nothing"), "no such folder"),
        (("check", tmp_path, "--by", "me"), "--by requires --rerun"),
        (("check", tmp_path, "--board", tmp_path / "nothing"), "expected a board"),
        (("new", board_run, "--out", tmp_path), "exists already"),
        (("new", tmp_path, "--out", tmp_path / "x"), "is not a run folder"),
        (("new", board_run, "--out", tmp_path / "Upper Case"), "id: expected lower-case letters"),
    ):
        status, _, err = cli("board", *words)
        assert (status, err.count("\n"), expected in err) == (2, 1, True), err


def test_new_fills_in_what_the_run_knows(cli: Cli, tmp_path: Path, board_run: Path) -> None:
    assert cli("board", "new", board_run, "--out", tmp_path / "mine")[0] == 0
    entry = read_entry(tmp_path / "mine" / FILE)
    assert entry.settings == ENTRY.settings
    status, out, _ = cli("board", "check", tmp_path / "mine")
    assert status == 1
    assert "PROBLEM entry: title: still to be filled in" in out


def test_the_schema_is_that_of_the_validator(cli: Cli, good: Path) -> None:
    schema = json.loads(cli("board", "schema")[1])
    keys = schema["$defs"]["Entry"]
    assert {*keys["properties"]} == {key.name for key in validate.describe(Entry)}
    assert {*keys["required"]} == {key.name for key in validate.describe(Entry) if key.required}
    assert all(part["additionalProperties"] is False for part in schema["$defs"].values())
    assert "\\Z" not in json.dumps(schema)


def test_a_comment_calls_nobody_and_is_no_markup() -> None:
    review = Review("x")
    review.refuse("rows", "@everyone <img src=x onerror=alert(1)> [a](javascript:alert(1))", "mend `it`")
    text = review.comment()
    assert "@everyone" not in text
    assert "\\<img" in text
    assert "\\[a\\]" in text
    assert "mend `it`" in text


def test_a_rerun_is_noted(board_run: Path, tmp_path: Path) -> None:
    from tta_bench.board.rerun import note_rerun
    from tta_bench.verify.findings import Audit

    folder = submit(board_run, tmp_path / "mine")
    audit = Audit()
    audit.holds("rerun", "a", "same predictions, bit for bit")
    audit.holds("rerun", "b", "0.10 % of predictions differ")
    note_rerun(read_submission(folder), audit, "Grace", "a chip")
    (made,) = read_entry(folder / FILE).reruns
    assert (made.by, made.cells, made.result) == ("Grace", 2, "within tolerance")
    assert made.machine.startswith("a chip, ")
    with pytest.raises(UserError, match="no cell could run again"):
        note_rerun(read_submission(folder), Audit(), "Grace", "a chip")


def test_a_suite_that_is_not_installed_is_refused(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "unheard-of")
    record, predictions = whole_record("mine", "contrast", 0)
    keep(store, changed(record, suite="unheard-of"), predictions)
    pack(store.folder, tmp_path / "x.zip")
    refused(submit(store.folder, tmp_path / "mine"), "suites", "suite 'unheard-of' is not one of this board")


def test_reading_needs_no_torch(good: Path) -> None:
    import subprocess
    import sys

    code = "import sys; import tta_bench.board.check, tta_bench.packed.address; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})


def test_our_own_entries_pass_their_own_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import board_entries

    theirs = whole_run(tmp_path / "run", ("source", "tent"))
    words = ["board_entries", str(theirs), str(tmp_path / "board"), "--holdout", boards.OTHER.name]
    monkeypatch.setattr("sys.argv", words)
    assert board_entries.main() == 0
    (entry,) = read_board(tmp_path / "board")
    assert (entry.id, entry.entry.package, entry.entry.chosen_on) == (
        "tent-two-digits",
        "built-in",
        (boards.OTHER.name,),
    )
    assert check(entry.folder)[0].accepted
    before = (entry.folder / RUN).read_bytes()
    assert board_entries.main() == 0, "made again in place"
    assert (entry.folder / RUN).read_bytes() == before


def test_an_entry_may_hold_several_rows_with_source_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import board_entries

    theirs = three_rows(tmp_path / "run")
    words = ["board_entries", str(theirs), str(tmp_path / "board"), "--holdout", boards.OTHER.name]
    monkeypatch.setattr(
        "sys.argv", [*words, "--together", "both", "--title", "Two methods", "--rows", "tent,eata,lost"]
    )
    assert board_entries.main() == 0
    (entry,) = read_board(tmp_path / "board")
    assert (entry.id, entry.entry.title) == ("both", "Two methods")
    assert [record.label for record in entry.records][:3] == ["source", "tent", "eata"]
    assert check(entry.folder)[0].accepted
    built = build(tmp_path / "board", tmp_path / "site")
    assert (built.submissions, built.suites) == (1, 1)
    data = {path.name for path in (tmp_path / "site" / "data" / "two-digits").glob("row-*")}
    assert data == {f"row-both--{row}.js" for row in ("source", "tent", "eata")}
    records = collect(tmp_path / "board")["two-digits"]
    assert len(lzma.decompress(records).split(b"\0")) == 3 * 2 * 3, "rows, tasks and seeds"


def test_rows_without_all_tasks_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import board_entries

    theirs = three_rows(tmp_path / "run")
    for path in (theirs / "cells").glob("eata--contrast--seed1--*"):
        path.unlink()
    monkeypatch.setattr("sys.argv", ["board_entries", str(theirs), str(tmp_path / "board"), "--together", "both"])
    assert board_entries.main() == 0
    assert "left out: row eata lacks contrast with seed 1" in capsys.readouterr().err
    (entry,) = read_board(tmp_path / "board")
    assert {record.label for record in entry.records} == {"source", "tent"}


def three_rows(folder: Path) -> Path:
    """A run of Source, TENT and EATA."""
    return whole_run(folder, ("source", "tent", "eata"))


def test_new_takes_some_rows_and_always_source(cli: Cli, tmp_path: Path) -> None:
    theirs = three_rows(tmp_path / "run")
    assert cli("board", "new", theirs, "--out", tmp_path / "some", "--methods", "tent", "--seeds", "0,2")[0] == 0
    records = read_submission(tmp_path / "some").records
    assert {record.label for record in records} == {"source", "tent"}
    assert {record.cell.spec.seed for record in records} == {0, 2}
    status, _, err = cli("board", "new", theirs, "--out", tmp_path / "none", "--seeds", "7")
    assert (status, "no record has one of the seeds 7" in err) == (2, True)


def in_bf16(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, amp="bf16"), predictions)


def test_new_knows_the_division(cli: Cli, tmp_path: Path, board_run: Path) -> None:
    half = changed_run(board_run, tmp_path / "half", in_bf16, every=True)
    for run, division in ((board_run, "closed"), (half, "open")):
        assert cli("board", "new", run, "--out", tmp_path / division)[0] == 0
        assert read_entry(tmp_path / division / FILE).division == division


def test_one_seed_suffices_where_it_shows_many_images(
    board_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    pack(board_run, folder / RUN, seeds=[0])
    write_entry(ENTRY, folder / FILE)
    refused(folder, "complete", "row mine lacks brightness with seed 1, brightness with seed 2")
    images = sum(record.scores.samples for record in read_submission(folder).records if record.label == "mine")
    monkeypatch.setattr("tta_bench.board.rows.MANY", images)
    review, _ = check(folder)
    assert review.accepted
    assert "one seed only: source, mine" in review.notes
    pack(short_run(board_run, tmp_path / "short"), folder / RUN, seeds=[0])
    refused(folder, "complete", "row mine lacks contrast with seed 0")
    assert not any("seed 1" in problem.text for problem in check(folder)[0].problems)
    pack(board_run, folder / RUN, seeds=[0, 1])
    refused(folder, "complete", "row mine lacks brightness with seed 2")


def short_run(run: Path, out: Path) -> Path:
    """A copy of a run that lacks a task of one row."""
    shutil.copytree(run, out)
    for path in (out / "cells").glob("mine--contrast--*"):
        path.unlink()
    return out


def test_an_entry_with_predictions_as_npy_files_is_still_valid(good: Path, board_run: Path) -> None:
    before = {"manifest.json": (board_run / "manifest.json").read_bytes()}
    for place in ("commands", "cells"):
        before |= {f"{place}/{path.name}": path.read_bytes() for path in sorted((board_run / place).iterdir())}
    assert any(name.endswith(".npy") for name in before)
    (good / RUN).write_bytes(zipped(before))
    assert check(good)[0].accepted
