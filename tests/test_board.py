"""`board check` accepts an honest submission and refuses bad ones, each for the right reason, and runs no code."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import boards
from tests.archives import zipped
from tests.boards import ENTRY, changed_run, submit, whole_record, whole_run
from tests.conftest import Cli
from tests.records import keep
from tta_bench import validate
from tta_bench.board.answer import CHECKS, Answer
from tta_bench.board.check import REMEDIES, check
from tta_bench.board.submission import FILE, RUN, Entry, Rerun, Retraction, Who, read_board, read_entry, read_submission
from tta_bench.errors import UserError
from tta_bench.measure.metrics import scores_of
from tta_bench.packed.pack import pack
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.suites import suite as suites
from tta_bench.verify import findings, streams


@pytest.fixture(autouse=True)
def _suites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "library", boards.library)
    monkeypatch.setattr(streams, "_expected", boards.expected)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_run(tmp_path_factory.mktemp("board") / "run")


@pytest.fixture
def good(run: Path, tmp_path: Path) -> Path:
    return submit(run, tmp_path / "incoming" / "mine")


@pytest.fixture
def board(tmp_path: Path, run: Path) -> Path:
    """A board with an entry of somebody else, whose predictions differ from ours."""
    theirs = whole_run(tmp_path / "theirs", ("source", "tent"))
    entry = replace(ENTRY, who=Who("Bob", "https://example.org/bob"), package="built-in", settings={})
    submit(theirs, tmp_path / "board" / "bobs", entry)
    return tmp_path / "board"


def test_a_good_submission_is_accepted(good: Path, board: Path, cli: Cli, tmp_path: Path) -> None:
    comment = tmp_path / "comment.md"
    status, out, _ = cli("board", "check", good, "--board", board, "--comment", comment)
    assert (status, "mine: accepted." in out) == (0, True), out
    text = comment.read_text()
    assert "✅ mine: accepted" in text
    assert "average accuracy (%), recomputed" in text
    assert "| mine " in text
    assert [old.id for old in read_board(board)] == ["bobs"]


def test_every_check_has_words_and_a_remedy() -> None:
    assert {*findings.CHECKS} - {"tables"} == {*REMEDIES}
    assert {*REMEDIES} <= {*CHECKS}


# --- runs that were forged, with fresh digests -----------------------------------------------------------------


def signed(record: Record, predictions: Predictions, **changes: Any) -> tuple[Record, Predictions]:
    return replace(replace(record, **scores_of(predictions, record.cell.tasks)), **changes), predictions


def an_accuracy(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, predictions, top1=0.99)


def better_labels(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, replace(predictions, label=predictions.prediction))


def another_order(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(replace(record, cell=replace(record.cell, stream="mine")), predictions)


def images_swapped(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    order = np.argsort(predictions.label, kind="stable")
    return signed(record, replace(predictions, index=predictions.index[order], label=predictions.label[order]))


def other_weights(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(replace(record, cell=replace(record.cell, weights="0" * 16)), predictions)


def a_weaker_source(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, replace(predictions, prediction=np.zeros_like(predictions.prediction)))


def a_larger_batch(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    laps = [0.01] * (record.samples // 64)
    cell = replace(record.cell, batch_size=64)
    return signed(
        replace(record, cell=cell, batch_seconds=laps, seconds={**record.seconds, "adapt": sum(laps)}), predictions
    )


def settings_by_task(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(replace(record, cell=replace(record.cell, settings={"strength": 0.9})), predictions)


def an_easier_severity(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(replace(record, cell=replace(record.cell, data={"kind": "digits-c", "severity": 1})), predictions)


def a_script_as_label(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(replace(record, label="<script>alert(1)</script>"), predictions)


FORGED: list[tuple[Callable[..., Any], str, bool, str, str]] = [
    (an_accuracy, "mine", False, "scores", "its top1 is 0.99, but its predictions give"),
    (better_labels, "mine", False, "labels", "labels are not those of the data"),
    (another_order, "mine", False, "orders", "the digest of its order is mine"),
    (images_swapped, "mine", False, "orders", "predictions are for another image"),
    (other_weights, "mine", True, "weights", "has weights 0000000000000000, the published ones are"),
    (a_weaker_source, "source", True, "source", "the reference is"),
    (a_larger_batch, "mine", True, "division", "row mine: batch_size is 64, the suite's is 32"),
    (settings_by_task, "mine", False, "settings", "row mine has other settings for some tasks or seeds"),
    (an_easier_severity, "mine", True, "suites", "its data are"),
    (a_script_as_label, "mine", True, "rows", "label '<script>alert(1)</script>'"),
]


@pytest.mark.parametrize(("change", "method", "every", "name", "words"), FORGED)
def test_a_forged_run_is_refused(
    run: Path, tmp_path: Path, change: Any, method: str, every: bool, name: str, words: str
) -> None:
    forged = changed_run(run, tmp_path / "forged", change, method, every)
    refused(submit(forged, tmp_path / "mine"), name, words)


def refused(folder: Path, name: str, words: str, board: Path | None = None) -> Answer:
    """Check that a submission is refused for this reason, and that the comment says how to mend it."""
    answer, _ = check(folder, read_board(board) if board else ())
    found = [problem for problem in answer.problems if problem.check == name]
    assert any(words in problem.text for problem in found), answer.problems
    assert not answer.accepted
    comment = answer.comment()
    assert "### To mend" in comment
    assert "How to mend it" in comment
    plain = re.sub("`[^`\n]+`", "", comment)  # code shows markup as it is
    assert "<script" not in plain.replace("\\<script", "")
    return answer


# --- runs that lack something ---------------------------------------------------------------------------------


def test_a_missing_seed_is_named(run: Path, tmp_path: Path) -> None:
    answer = refused(without(run, tmp_path, "*seed2*"), "complete", "contrast with seed 2")
    assert "--suite two-digits --methods mine --seeds 0,1,2" in answer.comment()


def test_a_missing_task_is_named(run: Path, tmp_path: Path) -> None:
    refused(without(run, tmp_path, "mine--brightness--*"), "complete", "row mine lacks brightness with seed 0")


def test_a_run_without_source_is_refused(run: Path, tmp_path: Path) -> None:
    refused(without(run, tmp_path, "source--*"), "rows", "there is no Source")


def test_a_run_with_nothing_but_source_is_refused(run: Path, tmp_path: Path) -> None:
    refused(without(run, tmp_path, "mine--*"), "rows", "there is no row but Source")


def without(run: Path, tmp_path: Path, pattern: str) -> Path:
    shutil.copytree(run, tmp_path / "part")
    for path in (tmp_path / "part" / "cells").glob(pattern):
        path.unlink()
    return submit(tmp_path / "part", tmp_path / "mine")


def test_a_part_of_a_stream_is_refused(run: Path, tmp_path: Path) -> None:
    def cut(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
        return signed(replace(record, cell=replace(record.cell, limit=600)), predictions)

    refused(submit(changed_run(run, tmp_path / "f", cut), tmp_path / "mine"), "complete", "is a part of a stream")


# --- submission.yaml ------------------------------------------------------------------------------------------


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
def test_a_wrong_entry_is_refused(run: Path, tmp_path: Path, changes: Any, name: str, words: str) -> None:
    refused(submit(run, tmp_path / "mine", **changes), name, words)


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


# --- run.zip --------------------------------------------------------------------------------------------------


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
    refused(good, "entry", "which no packed run has: refused")
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
    first, second = [name for name in files if name.startswith("cells/mine") and name.endswith(".npy")][:2]
    files[first], files[second] = files[second], files[first]
    (good / RUN).write_bytes(zipped(files))
    refused(good, "files", "damaged, its digest differs")


def test_a_renamed_record_is_refused(good: Path) -> None:
    files = members(good / RUN)
    (name, *_) = [name for name in files if name.startswith("cells/mine") and name.endswith(".json")]
    files["cells/best--contrast--seed0--000000000000.json"] = files.pop(name)
    (good / RUN).write_bytes(zipped(files))
    refused(good, "files", "is the record of another cell")


# --- beside the board -----------------------------------------------------------------------------------------


def renamed(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    """Somebody else's row under our name, with other confidences, so that no digest is theirs."""
    cell = replace(record.cell, method="mine", settings={"strength": 0.2}, method_code="mine")
    return signed(
        replace(record, cell=cell, label="mine"),
        replace(predictions, confidence=predictions.confidence - np.float32(0.01)),
    )


def test_somebody_elses_run_renamed_is_refused(tmp_path: Path, board: Path) -> None:
    stolen = changed_run(tmp_path / "theirs", tmp_path / "stolen", renamed, "tent", every=True)
    words = "row mine has the same predictions as row tent of bobs, by Bob"
    refused(submit(stolen, tmp_path / "incoming" / "mine"), "others", words, board)


def test_an_id_of_somebody_else_is_refused(run: Path, tmp_path: Path, board: Path) -> None:
    refused(submit(run, tmp_path / "incoming" / "bobs"), "others", "id bobs is taken, by Bob", board)


def test_changed_scores_of_an_own_entry_are_named(run: Path, tmp_path: Path) -> None:
    submit(run, tmp_path / "board" / "mine")

    def worse(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
        return signed(record, replace(predictions, prediction=np.zeros_like(predictions.prediction)))

    changed = submit(changed_run(run, tmp_path / "w", worse, every=True), tmp_path / "new" / "mine", title="Again")
    answer, _ = check(changed, read_board(tmp_path / "board"))
    assert answer.accepted
    assert "changes of the entry: title" in answer.notes
    (note,) = [note for note in answer.notes if note.startswith("row mine")]
    assert " on the board, " in note


def test_a_retraction_keeps_the_entry_and_says_why(run: Path, tmp_path: Path) -> None:
    reason = Retraction("the labels leaked", "2026-03-01")
    answer, _ = check(submit(run, tmp_path / "board" / "mine", retraction=reason))
    assert answer.accepted
    assert answer.notes == ["retracted on 2026-03-01: the labels leaked"]
    assert read_board(tmp_path / "board")[0].entry.retraction == reason


# --- divisions and the closed rule ----------------------------------------------------------------------------


def other_settings(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(replace(record, cell=replace(record.cell, settings={**record.cell.settings, "lr": 1.0})), predictions)


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
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(model: str) -> str:
        raise UserError(f"no published hash of the weights of '{model}'")

    monkeypatch.setattr("tta_bench.verify.reference.published_weights", nothing)
    folder = submit(run, tmp_path / "mine")
    answer, found = check(folder)
    assert not answer.accepted
    assert {point.check for point in answer.open} == {"weights"}
    assert "### Not checked here" in answer.comment()
    assert check(folder, weights=[found[0][0].cell.weights])[0].accepted


# --- the command line -----------------------------------------------------------------------------------------


def test_bad_input_is_one_line(cli: Cli, tmp_path: Path, run: Path) -> None:
    for words, expected in (
        (("check", tmp_path / "nothing"), "no such folder"),
        (("check", tmp_path, "--by", "me"), "--by requires --rerun"),
        (("check", tmp_path, "--board", tmp_path / "nothing"), "expected a board"),
        (("new", run, "--out", tmp_path), "exists already"),
        (("new", tmp_path, "--out", tmp_path / "x"), "is not a run folder"),
        (("new", run, "--out", tmp_path / "Upper Case"), "id: expected lower-case letters"),
    ):
        status, _, err = cli("board", *words)
        assert (status, err.count("\n"), expected in err) == (2, 1, True), err


def test_new_fills_in_what_the_run_knows(cli: Cli, tmp_path: Path, run: Path) -> None:
    assert cli("board", "new", run, "--out", tmp_path / "mine")[0] == 0
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
    answer = Answer("x")
    answer.refuse("rows", "@everyone <img src=x onerror=alert(1)> [a](javascript:alert(1))", "mend `it`")
    text = answer.comment()
    assert "@everyone" not in text
    assert "\\<img" in text
    assert "\\[a\\]" in text
    assert "mend `it`" in text


def test_a_rerun_is_noted(run: Path, tmp_path: Path) -> None:
    from tta_bench.board.rerun import note_rerun
    from tta_bench.verify.findings import Audit

    folder = submit(run, tmp_path / "mine")
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
    keep(store, replace(record, cell=replace(record.cell, suite="unheard-of")), predictions)
    pack(store.folder, tmp_path / "x.zip")
    refused(submit(store.folder, tmp_path / "mine"), "suites", "suite 'unheard-of' is not one of this board")


def test_reading_needs_no_torch(good: Path) -> None:
    import subprocess
    import sys

    code = "import sys; import tta_bench.board.check, tta_bench.packed.places; assert 'torch' not in sys.modules"
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
