"""What a reader of a report must not miss: other groups, slow first batches, wrong folders."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.records import changed, keep, make_record
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report import costs, leaderboard
from tta_bench.report.rows import compare
from tta_bench.report.tables import time_table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Source and sar on whole streams, tent only with a limit."""
    store = Store.create(tmp_path / "run", "s")
    for record in (make_record("source"), make_record("sar"), make_record("tent", limit=64)):
        keep(store, record)
    return store.folder


def test_compare_names_the_group_that_has_the_row(cli: Cli, folder: Path) -> None:
    status, _, err = cli("compare", folder, "--a", "source", "--b", "tent")
    assert status == 2
    assert "no row 'tent' in this group of s (rows: sar, source)" in err
    assert "add --where limit=64" in err
    _, _, err = cli("compare", folder, "--a", "source", "--b", "tnet")
    assert "no row 'tnet' in s (known: sar, source)" in err


@pytest.mark.parametrize("words", [("report",), ("compare", "--a", "source", "--b", "sar")], ids=lambda words: words[0])
@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_an_output_folder_that_is_a_file_is_refused_before_anything_is_shown(
    cli: Cli, folder: Path, tmp_path: Path, words: tuple[str, ...], below: str
) -> None:
    (tmp_path / "file").touch()
    status, out, err = cli(words[0], folder, *words[1:], "--out", tmp_path / "file" / below)
    assert (status, out) == (2, "")
    assert "file is a file, expected a folder" in err


def with_first(seconds: float, method: str = "tent") -> Record:
    record = make_record(method)
    return changed(record, batch_seconds=[seconds, *record.measured.batch_seconds[1:]])


@pytest.mark.parametrize(
    ("seconds", "is_slow"),
    [(0.01, False), (0.9, False), (1.0, False), (1.02, True), (40.0, True)],  # the others take 0.01 s
)
def test_a_first_batch_far_slower_than_the_others_is_noted(seconds: float, is_slow: bool) -> None:
    comparison = compare([make_record("source"), with_first(seconds)])
    notes = [note for note in map(str, time_table(comparison).notes) if "first batch far slower" in note]
    assert bool(notes) == is_slow
    lines = {line["label"]: line for line in csv.DictReader(io.StringIO(leaderboard.tidy_csv(comparison)))}
    assert lines["source"]["slow_first_batch"] == ""
    assert (lines["tent"]["slow_first_batch"] != "") == is_slow
    if is_slow:
        assert f"tent {seconds:.1f} s on fog, {seconds / 0.01:.0f} times their median" in notes[0]
        assert float(lines["tent"]["slow_first_batch"]) == pytest.approx(seconds / 0.01)


def test_slow_batches_all_over_or_a_single_batch_are_not_noted() -> None:
    alike = changed(make_record("tent"), batch_seconds=[9.0] * 10)
    alone = changed(make_record("tent"), batch_seconds=[9.0])
    assert costs.slow_first_batch(alike) is None
    assert costs.slow_first_batch(alone) is None


def test_times_that_contradict_counts_are_a_warning_and_not_drawn() -> None:
    def at(ms: float, forwards: int) -> list[Record]:
        return [make_record("source", ms=1.0), changed(make_record("eata", ms=ms), sample_forwards=forwards)]

    def said(records: list[Record]) -> list[str]:
        return [str(note) for note in time_table(compare(records)).notes if "contradict" in str(note)]

    wrong = at(0.71, 102)
    assert "eata took 0.71 × Source's time for 1.02 × its forwards" in said(wrong)[0]
    assert costs.contradictions(compare(wrong).rows) == {"eata": (pytest.approx(0.71), pytest.approx(1.02))}
    for fine in (at(0.95, 102), at(0.71, 60), at(2.0, 102)):
        assert said(fine) == []
