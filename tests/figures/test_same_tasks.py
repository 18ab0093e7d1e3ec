"""Figures of pooled predictions compare rows on the same tasks, and say what they leave out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.folders import ORDER, make_run, save
from tests.support.records import make_record
from tta_bench.figures import confusion, reliability
from tta_bench.records.store import Store

COMMON = "Only the 1 of 2 tasks that all rows have done: snow"


def with_a_trial(folder: Path) -> Path:
    """A run of two tasks, and a method that was tried on one of them."""
    run = make_run(folder)
    save(Store.open(run), make_record("trial", 0.6, task="snow"), ORDER >= 40)
    return run


def test_a_method_that_was_tried_on_one_task_is_compared_on_that_task(tmp_path: Path) -> None:
    found = reliability.data(with_a_trial(tmp_path / "run"))
    assert {one.label: len(one.correct) for one in found.answers} == {"source": 100, "better": 100, "trial": 100}
    assert COMMON in found.notes
    few = reliability.data(tmp_path / "run", methods=["source", "better"])
    assert ([len(one.correct) for one in few.answers], few.notes) == ([200, 200], ())


def test_confusion_is_over_the_same_tasks(tmp_path: Path) -> None:
    found = confusion.data(with_a_trial(tmp_path / "run"))
    assert (list(found.shares), COMMON in found.notes) == (["source", "better", "trial"], True)
    fog = confusion.data(tmp_path / "run", tasks=["fog"])
    assert list(fog.shares) == ["source", "better"]
    assert "Left out: trial, not all of its tasks are done" in fog.notes


def test_confusion_says_that_it_shows_three_rows_only(tmp_path: Path) -> None:
    run = with_a_trial(tmp_path / "run")
    save(Store.open(run), make_record("fourth", 0.6, task="snow"), np.flip(ORDER) >= 40)
    found = confusion.data(run)
    assert (len(found.shares), found.notes[0]) == (3, "Only the first 3 of 4 rows: choose others with --methods")
    assert len(confusion.data(run, methods=["source", "better", "trial", "fourth"]).shares) == 4
