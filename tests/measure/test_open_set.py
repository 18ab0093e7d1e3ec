"""Known against unknown classes: AUROC, FPR95 and H-score by their definitions, and their place in records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from tests.support.records import make_record, mixed
from tta_bench.errors import UserError
from tta_bench.measure.metrics import contradiction, scores_of
from tta_bench.measure.open_set import auroc, fpr95, h_score
from tta_bench.records.predictions import OPEN_ROW, Predictions
from tta_bench.records.record import Record

SCORES = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=40)  # with many ties


@given(SCORES, SCORES)
def test_auroc_is_the_share_of_pairs_in_the_right_order(known: Any, unknown: Any) -> None:
    pairs = [(k > u) + (k == u) / 2 for k in known for u in unknown]
    found = auroc(np.array(known), np.array(unknown))
    assert found == pytest.approx(sum(pairs) / len(pairs))
    truth = [1] * len(known) + [0] * len(unknown)
    assert found == pytest.approx(roc_auc_score(truth, [*known, *unknown]))


@given(SCORES, SCORES)
def test_fpr95_is_what_the_first_threshold_accepts_that_keeps_95_percent(known: Any, unknown: Any) -> None:
    found = fpr95(np.array(known), np.array(unknown))
    good = [t for t in sorted({*known, *unknown}) if 100 * sum(k >= t for k in known) >= 95 * len(known)]
    assert found == sum(u >= max(good) for u in unknown) / len(unknown)
    truth = [1] * len(known) + [0] * len(unknown)
    fpr, tpr, _ = roc_curve(truth, [*known, *unknown], drop_intermediate=False)
    assert found == pytest.approx(fpr[np.flatnonzero(tpr >= 0.95 - 1e-12)[0]])


def test_h_score_is_a_harmonic_mean() -> None:
    assert h_score(0.5, 1.0) == pytest.approx(2 / 3)
    assert h_score(0.0, 0.0) == 0
    assert h_score(0.7, 0.7) == pytest.approx(0.7)


def test_unknown_images_are_no_errors_and_their_scores_are_by_task() -> None:
    found = mixed([1, 0, 1, 1], unknown=[2, 3], confidence=[0.9, 0.8, 0.7, 0.6, 0.95, 0.5], task=[0, 0, 1, 1, 0, 1])
    scores = scores_of(found, ("fog", "snow"))
    assert (scores.samples, scores.top1, scores.task_top1) == (6, 0.75, {"fog": 0.5, "snow": 1.0})
    assert scores.open["fog"]["softmax auroc"] == 0
    assert scores.open["snow"]["softmax auroc"] == 1
    assert scores.open["snow"]["softmax fpr95"] == 0
    assert scores.open["fog"]["unknown"] == pytest.approx(1 / 3)
    assert "own auroc" not in scores.open["fog"]
    own = replace(found, own_score=np.ones(4, np.float32), unknown=replace(found.unknown, own_score=np.zeros(2)))
    assert scores_of(own, ("fog", "snow")).open["fog"]["own auroc"] == 1


def test_columns_of_the_whole_stream_keep_its_order() -> None:
    found = mixed([1, 0, 1], unknown=[0, 2])
    assert found.unknown is not None
    assert found.whole("label").tolist() == [-1, 0, -1, 0, 0]
    assert (len(found), found.images, found.places.tolist()) == (3, 5, [1, 3, 4])
    assert (found.whole("prediction") == [7, 0, 7, 1, 0]).all()


def test_files_hold_unknown_images_and_old_files_keep_their_bytes() -> None:
    found = mixed([1, 0, 1, 1], unknown=[1, 5])
    content = found.to_bytes()
    again = Predictions.from_bytes(content, 6, "file")
    assert again.to_bytes() == content
    assert again.unknown is not None
    assert again.unknown.places.tolist() == [1, 5]
    plain = replace(found, unknown=None, place=None, energy=None, own_score=None)
    assert len(plain.to_bytes()) < len(content)
    assert Predictions.from_bytes(plain.to_bytes(), 4, "file").energy is None
    with pytest.raises(UserError, match="expected predictions for 5 images"):
        Predictions.from_bytes(content, 5, "file")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("label", [0, 0, 0], "known and of unknown"),
        ("label", [-1, -1, -1], "known and of unknown"),
        ("label", [0, -2, 0], "at least -1, got -2"),
        ("energy", [0, np.inf, 0], "energy"),
        ("own_score", [0, np.nan, 0], "own_score"),
    ],
)
def test_impossible_values_are_refused(column: str, values: Any, message: str) -> None:
    content = mixed([1, 0], unknown=[1]).to_bytes()
    size = 3 * OPEN_ROW.itemsize
    rows = np.frombuffer(content[-size:], OPEN_ROW).copy()
    rows[column] = values
    with pytest.raises(UserError, match=message):
        Predictions.from_bytes(content[:-size] + rows.tobytes(), 3, "file")


def test_records_hold_the_scores_and_a_changed_one_is_noticed() -> None:
    found = mixed([1, 0, 1, 1], unknown=[2, 3])
    record = replace(make_record("tent"), scores=scores_of(found, ("fog",)))
    again = Record.from_bytes(record.to_bytes(), "file")
    assert again.scores == record.scores
    assert contradiction(again, found) == ""
    better = {"fog": {**record.scores.open["fog"], "entropy auroc": 0.999}}
    assert "its open is" in contradiction(replace(record, scores=replace(record.scores, open=better)), found)
    assert b'"open"' not in make_record("tent").to_bytes()
