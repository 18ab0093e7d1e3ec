"""`Conditions` decides what may be compared: every field has a consequence, and every refusal says what to do."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tests.support.records import changed, make_cell, make_failure, make_record
from tta_bench.errors import UserError
from tta_bench.records.conditions import Conditions, TimeConditions, scenario_label
from tta_bench.records.live import Live
from tta_bench.records.record import Record
from tta_bench.report.choose import comparison, groups
from tta_bench.report.costs import machines_of
from tta_bench.report.rows import compare

REFUSED: dict[str, dict[str, Any]] = {
    "suite": {"suite": "t"},
    "scenario": {"scenario": "single"},
    "batch_size": {"batch_size": 5},
    "device": {"device": "cuda"},
    "limit": {"limit": 64},
    "model": {"model": "n"},
    "weights": {"weights": "x"},
    "images": {"images": "another tree"},
    "order": {"stream": "another order"},
    "stream_speed": {"live": Live(1)},
}
OTHER_MODES: list[dict[str, Any]] = [{"amp": "bf16"}, {"compile": True}, {"amp": "bf16", "compile": True}]
OTHER_COLUMN: dict[str, dict[str, Any]] = {"name": {"task": "snow"}, "seed": {"seed": 1}}


def test_every_condition_has_a_consequence() -> None:
    known = {*REFUSED, "mode", *OTHER_COLUMN}
    assert {f.name for f in fields(Conditions) if f.compare} == known


@pytest.mark.parametrize("name", REFUSED)
def test_another_value_is_refused_in_one_table(name: str) -> None:
    with pytest.raises(UserError, match=r"different|belong to"):
        compare([make_record("a"), make_record("b", **REFUSED[name])])


@pytest.mark.parametrize("mode", OTHER_MODES)
def test_another_mode_is_another_row(mode: dict[str, Any]) -> None:
    assert len(compare([make_record("a"), make_record("a", **mode)]).rows) == 2


@pytest.mark.parametrize("name", OTHER_COLUMN)
def test_another_stream_is_the_same_row(name: str) -> None:
    (row,) = compare([make_record("a"), make_record("a", **OTHER_COLUMN[name])]).rows
    first, second = (record.cell.conditions for record in row.records)
    assert first.key != second.key


def test_the_method_is_no_condition() -> None:
    one = make_cell("a", settings={"lr": 0.1}, method_code="x", source="clean images")
    assert one.conditions == make_cell("b").conditions


def test_a_scenario_shows_its_settings() -> None:
    assert scenario_label(make_cell("a", scenario="mixed").spec) == "mixed"
    shifts = [
        make_record(m, scenario="label-shift", scenario_settings={"imbalance": x}) for m, x in (("a", 1e3), ("b", 5e5))
    ]
    assert shifts[1].cell.conditions.scenario == "label-shift, imbalance 500000"
    with pytest.raises(UserError, match="different scenarios: .*with --scenario label-shift --imbalance 1000"):
        compare(shifts)
    found = comparison(shifts, [("scenario", "label-shift")])
    assert any("`--where 'scenario=label-shift, imbalance " in note for note in map(str, found.notes))


def sized(record: Record, images: int) -> Record:
    return changed(record, samples=images)


SHORT = sized(make_record("a", task="short"), 50)
CUT = sized(make_record("a", task="long", limit=64), 64)
WHOLE = sized(make_record("a", task="long"), 500)


def test_a_task_shorter_than_the_limit_is_in_the_same_table_as_those_it_cuts() -> None:
    found = comparison([SHORT, CUT])
    assert (found.tasks, len(found.rows), found.limit) == (("short", "long"), 1, 64)
    assert [note for note in map(str, found.notes) if "limit" in note] == [
        "NOT REPORTABLE: only the first 64 images of each task (--limit 64)."
    ]


def test_a_short_task_belongs_to_the_whole_run_and_to_the_trial() -> None:
    there = [SHORT, CUT, WHOLE]
    assert {group.limit: len(group.records) for group in groups(there)} == {None: 2, 64: 2}
    found = comparison(there)
    assert (found.records, found.limit) == ([SHORT, WHOLE], None)
    assert any("1 record with limit=64" in note for note in map(str, found.notes))
    assert comparison(there, [("limit", "64")]).records == [SHORT, CUT]
    assert comparison(there, [("limit", "none")]).records == [SHORT, WHOLE]


def test_a_failed_cell_of_a_short_task_is_as_long_as_its_stream() -> None:
    failed = make_failure("b", "it broke", task="short")
    assert {row.label for row in comparison([SHORT, CUT, failed]).rows} == {"a", "b"}


def test_a_longer_task_is_not_whole_under_the_limit() -> None:
    alone = sized(make_record("b", task="other"), 65)
    assert {group.limit: len(group.records) for group in groups([CUT, alone])} == {64: 1, None: 1}


def test_times_share_chip_threads_torch_and_spinning() -> None:
    def on(method: str, threads: int = 2, **environment: Any) -> Record:
        return changed(make_record(method), environment={"device_name": "chip", "threads": threads, **environment})

    assert machines_of(compare([on("a"), on("b")])) == ["chip, 2 threads"]
    spun = compare([on("a"), on("b", GOMP_SPINCOUNT="10000")])
    assert machines_of(spun) == ["chip, 2 threads, GOMP_SPINCOUNT not set", "chip, 2 threads, GOMP_SPINCOUNT 10000"]
    assert machines_of(compare([on("a", 1), on("b", 1, GOMP_SPINCOUNT="10000")])) == ["chip, 1 thread"]
    assert TimeConditions.of({}) == TimeConditions.of({"packages": {}})
