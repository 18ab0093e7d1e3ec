"""`board check` accepts an honest submission and refuses forged and incomplete runs, each for the right reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.boards import changed_run, refused, signed, submit
from tests.support.cli import Cli
from tests.support.records import changed, changed_cell
from tta_bench.board.check import REMEDIES
from tta_bench.board.review import CHECKS
from tta_bench.board.submission import read_board
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.verify import findings

pytestmark = pytest.mark.usefixtures("small_board")


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


def an_accuracy(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, predictions, top1=0.99)


def better_labels(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, replace(predictions, label=predictions.prediction))


def another_order(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, stream="mine"), predictions)


def images_swapped(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    order = np.argsort(predictions.label, kind="stable")
    return signed(record, replace(predictions, index=predictions.index[order], label=predictions.label[order]))


def other_weights(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, weights="0" * 16), predictions)


def a_weaker_source(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, replace(predictions, prediction=np.zeros_like(predictions.prediction)))


def a_larger_batch(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    laps = [0.01] * (record.scores.samples // 64)
    cell = changed_cell(record.cell, batch_size=64)
    return signed(
        changed(record, cell=cell, batch_seconds=laps, seconds={**record.measured.seconds, "adapt": sum(laps)}),
        predictions,
    )


def settings_by_task(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, settings={"strength": 0.9}), predictions)


def an_easier_severity(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, data={"kind": "digits-c", "severity": 1}), predictions)


def a_script_as_label(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, label="<script>alert(1)</script>"), predictions)


FORGED: list[tuple[Callable[..., Any], str, bool, str, str]] = [
    (an_accuracy, "mine", False, "scores", "its top1 is 0.99, but its predictions give"),
    (better_labels, "mine", False, "labels", "labels differ from the data"),
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
    board_run: Path, tmp_path: Path, change: Any, method: str, every: bool, name: str, words: str
) -> None:
    forged = changed_run(board_run, tmp_path / "forged", change, method, every)
    refused(submit(forged, tmp_path / "mine"), name, words)


def test_a_missing_seed_is_named(board_run: Path, tmp_path: Path) -> None:
    answer = refused(without(board_run, tmp_path, "*seed2*"), "complete", "contrast with seed 2")
    assert "--suite two-digits --methods mine --seeds 0,1,2" in answer.comment()


def test_a_missing_task_is_named(board_run: Path, tmp_path: Path) -> None:
    refused(without(board_run, tmp_path, "mine--brightness--*"), "complete", "row mine lacks brightness with seed 0")


def test_a_run_without_source_is_refused(board_run: Path, tmp_path: Path) -> None:
    refused(without(board_run, tmp_path, "source--*"), "rows", "there is no Source")


def test_a_run_with_nothing_but_source_is_refused(board_run: Path, tmp_path: Path) -> None:
    refused(without(board_run, tmp_path, "mine--*"), "rows", "there is no row but Source")


def without(run: Path, tmp_path: Path, pattern: str) -> Path:
    shutil.copytree(run, tmp_path / "part")
    for path in (tmp_path / "part" / "cells").glob(pattern):
        path.unlink()
    return submit(tmp_path / "part", tmp_path / "mine")


def test_a_part_of_a_stream_is_refused(board_run: Path, tmp_path: Path) -> None:
    def cut(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
        return signed(changed(record, limit=600), predictions)

    refused(submit(changed_run(board_run, tmp_path / "f", cut), tmp_path / "mine"), "complete", "is a part of a stream")
