"""One list of columns: every place is filled from it, and published files keep their columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest

from tests.support.records import make_record
from tta_bench.report import leaderboard
from tta_bench.report.column import Column, Context, Line, Place, at, entries
from tta_bench.report.columns import COLUMNS, columns_at
from tta_bench.report.rows import compare
from tta_bench.report.tables import accuracy_table, time_table

PUBLISHED = (
    "label,method,settings,suite,task,seed,top1,top5,ece,scored,forwards_per_image,backwards_per_image,needs_source,"
    "ms_per_image,peak_mib,model,weights,stream,status,reason,slow_first_batch"
)
TIMES = ("seconds", "ms/image", "× Source", "min/50k", "forwards/image", "backwards/image", "peak MiB", "prepare s")


@pytest.mark.parametrize("place", get_args(Place))
def test_every_place_has_columns_in_one_order_with_a_getter(place: Place) -> None:
    columns = columns_at(place)
    assert columns
    assert max(Counter(column.shown[place] for column in columns).values()) == 1
    assert max(Counter(column.key for column in columns).values()) == 1
    of_records = place in ("csv", "frame")
    assert all((column.record if of_records else column.row) is not None for column in columns)


def test_published_files_keep_their_columns() -> None:
    comparison = compare([make_record("source"), make_record("tent", 0.6)])
    assert leaderboard.tidy_csv(comparison).partition("\n")[0] == PUBLISHED
    assert time_table(comparison).columns == TIMES
    assert accuracy_table(comparison).columns == ("fg", "Avg.", "scored", "fwd", "bwd", "src")


def test_a_column_is_shown_where_it_says() -> None:
    pace = Column(
        "images_per_second",
        {"csv": 50, "time": 9, "ranking": 9},
        name="images/s",
        digits=1,
        record=lambda line: 1000 / line.record.steady_ms_per_image,
        row=lambda row, context: 1000 / row.done[0].steady_ms_per_image,
    )
    comparison = replace(compare([make_record("source", ms=4)]), columns=(pace,))
    assert at("time", (*COLUMNS, pace))[-1] is pace
    assert time_table(comparison).columns[-1] == "images/s"
    assert str(time_table(comparison).rows[0][1][-1]) == "250.0"
    assert leaderboard.tidy_csv(comparison).splitlines()[1].endswith(",250.00")
    assert leaderboard.ranking(comparison).columns[-1] == "images/s"


def test_a_failed_record_has_no_numbers_and_a_failed_row_says_so() -> None:
    record = replace(make_record("tent"), status="failed", reason="it broke")
    comparison = compare([make_record("source"), record])
    texts = {c.key: c.text(c.of_line(Line("tent", "fog", record))) for c in columns_at("csv")}
    assert (texts["top1"], texts["ms_per_image"], texts["needs_source"], texts["reason"]) == ("", "", "", "it broke")
    failed = entries(columns_at("time"), comparison.rows[1], Context(comparison), "failed")
    assert set(map(str, failed)) == {"failed"}
