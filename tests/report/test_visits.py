"""Visits of recurring streams, from stored predictions alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import linregress, t

from tests.support.works import run_folder
from tta_bench.data.occurrences import earlier
from tta_bench.errors import UserError
from tta_bench.figures import kinds, style
from tta_bench.records.predictions import Predictions
from tta_bench.report import visits


def predictions(index: list[int], prediction: list[int], label: list[int]) -> Predictions:
    count = len(index)
    ints, floats = (np.zeros(count, kind) for kind in (np.int32, np.float32))
    return Predictions(
        index=np.array(index, np.int32),
        label=np.array(label, np.int32),
        prediction=np.array(prediction, np.int32),
        task=ints.astype(np.int16),
        in_top5=np.ones(count, bool),
        confidence=floats,
        entropy=floats,
        brier=floats,
    )


def test_a_visit_is_how_often_an_image_was_shown() -> None:
    assert earlier(np.array([4, 2, 4, 4, 2, 9])).tolist() == [0, 0, 1, 2, 1, 0]
    found = predictions([0, 1, 1, 0], [5, 5, 5, 6], [5, 5, 5, 5])
    assert visits.accuracies(found).tolist() == [100, 50]


def test_a_slope_has_its_interval() -> None:
    rising = visits.slope([[10, 12, 14, 16], [11, 13, 15, 17]])
    assert rising is not None
    assert rising.mean == pytest.approx(2)
    assert rising.low < 2 < rising.high
    error = linregress([0, 1, 2, 3] * 2, [10, 12, 14, 16, 11, 13, 15, 17]).stderr
    assert rising.high - rising.mean == pytest.approx(error * t.ppf(0.975, 6))
    assert visits.slope([[1, 2]]) is None


def test_collapses_are_dated_by_visit() -> None:
    index = [*range(128), *range(128)]
    source = predictions(index, [i % 10 for i in index], index)
    own = predictions(index, [i % 10 for i in range(128)] + [3] * 128, index)
    assert visits.collapsed(own, source) == [2]
    assert visits.collapsed(source, source) == []


@pytest.mark.parametrize(
    ("scenario", "kind", "count"), [("continual+recurring:3", "visits", 3), ("forgetting", "forgetting", 2)]
)
def test_figures_of_visits(tmp_path: Path, small_suite: Path, scenario: str, kind: str, count: int) -> None:
    pytest.importorskip("matplotlib")
    place = run_folder(tmp_path / "run", small_suite, methods=("source",), scenario=scenario)
    with style.house_style():
        found, figure = kinds.make(kind, place, {})
        style.save(figure, tmp_path / "figure", ("png",))
    assert [len(line.mean) for line in found.lines] == [count]
    assert any("points per visit" in note for note in found.notes) == (kind == "visits")


def test_streams_without_visits_are_refused(tmp_path: Path, small_suite: Path) -> None:
    place = run_folder(tmp_path / "run", small_suite, methods=("source",), scenario="continual+recurring:2", limit=8)
    for kind, words in (("visits", "run without --limit"), ("forgetting", "no clean images in its streams")):
        with pytest.raises(UserError, match=words):
            kinds.make(kind, place, {})
