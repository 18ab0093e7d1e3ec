"""The time table of a paper: extrapolated minutes, ratios of matched batches with intervals, the paper's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.papers import row, shipped
from tests.support.records import changed, make_record
from tta_bench.measure.ratio import Ratio
from tta_bench.records.record import Record
from tta_bench.report.paper import paper_table
from tta_bench.report.ratio import matched_batches, time_ratio
from tta_bench.report.rows import compare
from tta_bench.report.tables import layout, time_table


def timed(method: str, seconds: list[float], **changes: Any) -> Record:
    """A record of the cost suite whose batches of 64 took this long."""
    (record,) = shipped(method, "cost", **changes)
    return changed(
        record, samples=64 * len(seconds), batch_seconds=seconds, seconds={"adapt": sum(seconds), "prepare": 0}
    )


def noisy(rng: np.random.Generator, batches: int, second: float) -> list[float]:
    """Times of a machine whose slow moments last for some batches; the first batch warms up."""
    mood = np.repeat(rng.normal(0, 0.02, -(-batches // 5)), 5)[:batches]
    times = second * np.exp(mood + rng.normal(0, 0.02, batches))
    return [20 * second, *times[1:].tolist()]


def test_minutes_are_extrapolated_and_say_so() -> None:
    table = time_table(compare([timed("sar", [9.0, 0.64, 0.64, 0.64])]))
    assert row(table, "sar")["min/50k"] == "8.33"  # 10 ms an image
    note = "min/50k: minutes of `adapt` for 50,000 images, extrapolated from ms/image of 256 images per method."
    assert note in map(str, table.notes)


def test_every_suite_has_the_minutes() -> None:
    assert row(time_table(compare([make_record("sar", ms=6)])), "sar")["min/50k"] == "5.00"


def test_the_papers_minutes_and_the_ratio_are_shown() -> None:
    rng = np.random.default_rng(0)
    records = [timed("sar", noisy(rng, 100, 0.5)), timed("dpal", noisy(rng, 100, 0.6)), timed("source", [0.1] * 100)]
    tables = layout(compare(records))
    assert list(tables) == ["time", "accuracy"]
    table = paper_table(compare(records))
    assert table is not None
    shown = row(table, "dpal")
    assert (shown["paper min"], shown["paper × sar"]) == ("8", "1.14")
    assert 1.15 < float(shown["95 % low"]) <= float(shown["× sar"]) <= float(shown["high"]) < 1.25
    assert (row(table, "sar")["paper min"], row(table, "sar")["× sar"]) == ("7", "1.00")
    said = next(note for note in map(str, table.notes) if note.startswith("dpal / sar: "))
    assert "over 99 matched batches" in said
    assert said.endswith("the paper's 8/7 = 1.14.")
    assert any("other hardware: chip, 2 threads; the paper's is RTX 3090" in note for note in map(str, table.notes))
    assert "Not in the paper: source." in map(str, table.notes)
    assert "In the paper and not measured here: memo (840 min), dda (7200 min)." in map(str, table.notes)


def test_the_baseline_is_the_first_of_the_papers_that_is_measured() -> None:
    table = paper_table(compare([timed("dpal", [1.0] * 20), timed("source", [0.1] * 20)]))
    assert row(table, "dpal")["× dpal"] == "1.00"


def test_the_first_batch_does_not_count() -> None:
    (times,) = matched_batches([(timed("dpal", [99.0, *[2.0] * 20]), timed("sar", [1.0] * 21))])
    assert times.shape == (2, 20)
    assert time_ratio([times]) == Ratio(2, 2, 2)


def test_the_same_batches_or_no_ratio() -> None:
    sar = timed("sar", [1.0] * 20)
    assert matched_batches([(timed("dpal", [1.0] * 19), sar)]) == []
    assert matched_batches([(timed("dpal", [1.0] * 20, stream="other"), sar)]) == []
    assert matched_batches([(timed("dpal", [1.0]), timed("sar", [1.0]))]) == []
    table = paper_table(compare([timed("sar", [1.0]), timed("dpal", [2.0])]))
    assert row(table, "dpal")["× sar"] == "2.00"
    assert any("no batches in common" in note for note in map(str, table.notes))


def test_few_batches_give_no_interval() -> None:
    found = time_ratio(matched_batches([(timed("dpal", [1.0, 2.0, 2.0]), timed("sar", [1.0, 1.0, 1.0]))]))
    assert (found.value, found.has_interval) == (2.0, False)
    table = paper_table(compare([timed("sar", [1.0] * 3), timed("dpal", [2.0] * 3)]))
    assert row(table, "dpal")["95 % low"] == "–"
    assert any("(too few for an interval)" in note for note in map(str, table.notes))


@pytest.mark.parametrize("streams", [1, 3])
def test_the_interval_covers(streams: int) -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        pairs = [(timed("dpal", noisy(rng, 60, 0.6)), timed("sar", noisy(rng, 60, 0.5))) for _ in range(streams)]
        found = time_ratio(matched_batches(pairs))
        covered += found.low <= 1.2 <= found.high
    assert 0.90 <= covered / 200 <= 0.995


def test_the_same_records_give_the_same_interval() -> None:
    rng = np.random.default_rng(0)
    streams = matched_batches([(timed("dpal", noisy(rng, 60, 0.6)), timed("sar", noisy(rng, 60, 0.5)))])
    assert time_ratio(streams) == time_ratio(streams)
