"""A folder that mixes scenarios, limits or batch sizes is reported in groups; `--where` picks one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cli import Cli
from tests.support.records import keep, make_failure, make_record, predict
from tta_bench.cli import where
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report.choose import KEYS, comparison, comparisons, parse


def made(method: str, day: int, **changes: Any) -> Record:
    return replace(make_record(method, **changes), finished_at=f"2026-01-{day:02}T00:00:00+00:00")


MIXED = [
    made("sar", 2),
    made("tent", 2),
    made("sar", 3, limit=64),
    made("sar", 1, scenario="mixed"),
    made("tent", 1, batch_size=5),
]


def test_the_newest_group_of_whole_streams_is_shown_and_the_others_are_named() -> None:
    found = comparison(MIXED)
    assert [row.label for row in found.rows] == ["sar", "tent"]
    assert [note for note in map(str, found.notes) if note.startswith("Left out")] == [
        "Left out, not comparable: 1 record with limit=64; show them with `--where limit=64`.",
        "Left out, not comparable: 1 record with scenario=mixed; show them with `--where scenario=mixed`.",
        "Left out, not comparable: 1 record with batch_size=5; show them with `--where batch_size=5`.",
    ]


def test_newer_is_what_was_finished_later() -> None:
    found = comparison([*MIXED, made("tent", 4, scenario="mixed")])
    assert {record.cell.spec.scenario for record in found.records} == {"mixed"}
    assert any(
        "2 records with scenario=normal, limit=64; " in note
        for note in map(str, comparison([*MIXED, made("tent", 3, limit=64), made("tent", 4, scenario="mixed")]).notes)
    )


def test_without_whole_streams_the_newest_part_is_shown() -> None:
    found = comparison([made("sar", 1, limit=32), made("sar", 3, limit=64), made("sar", 2, limit=16)])
    assert found.rows[0].first.cell.spec.limit == 64
    assert any(note.startswith("NOT REPORTABLE: only the first 64") for note in map(str, found.notes))


@pytest.mark.parametrize("filter_", ["limit=64", "scenario=mixed", "batch-size=5", "limit=none"])
def test_the_note_of_a_group_leads_to_it(filter_: str) -> None:
    key, value = parse(filter_)
    found = comparison(MIXED, [(key, value)])
    assert {KEYS[key](record) for record in found.records} == {(value,)}


def test_filters_of_one_key_mean_either_and_of_several_keys_all() -> None:
    records = [made(method, 1, seed=seed, task=task) for method in "abc" for seed in (0, 1) for task in ("fog", "snow")]
    found = comparison(records, [("method", "a"), ("method", "b"), ("seed", "1"), ("task", "fog")])
    assert [(r.label, r.cell.spec.seed, r.cell.name) for r in found.records] == [("a", 1, "fog"), ("b", 1, "fog")]


def test_what_is_unfair_within_a_group_is_still_refused() -> None:
    with pytest.raises(UserError, match="different images or orders"):
        comparison([*MIXED, made("dpal", 9, stream="other")])
    with pytest.raises(UserError, match="different source weights: .*run dpal again with --model m$"):
        comparison([*MIXED, made("dpal", 9, weights="x")])
    other = [*MIXED, made("dpal", 9, model="n")]
    with pytest.raises(
        UserError, match=r"run dpal again with --model m, or report them separately, as with --where model=m"
    ):
        comparison(other)
    assert [row.label for row in comparison(other, [("model", "n")]).rows] == ["dpal"]


def test_each_table_has_its_own_groups() -> None:
    records = [made("sar", 1), made("sar", 5, suite="t", limit=64), made("sar", 2, suite="t", limit=32)]
    assert [(one.suite, one.rows[0].first.cell.spec.limit) for one in comparisons(records)] == [("s", None), ("t", 64)]
    with pytest.raises(UserError, match=r"several tables \(s, t\): choose one with --where suite=NAME"):
        comparison(records)
    assert comparison(records, [("suite", "t")]).suite == "t"


@pytest.mark.parametrize(
    ("filter_", "said"),
    [
        ("limit=63", "--where limit=63: no such record (known: limit=64, limit=none)"),
        ("metod=sar", "unknown key 'metod'; did you mean 'method'?"),
        ("limit", "expected KEY=VALUE, as in limit=none, got 'limit'"),
        ("limit=", "expected KEY=VALUE"),
    ],
)
@pytest.mark.parametrize("verb", [("report",), ("compare", "--a", "sar", "--b", "tent"), ("figure", "curve")])
def test_mistakes_are_one_line(cli: Cli, tmp_path: Path, verb: tuple[str, ...], filter_: str, said: str) -> None:
    fill(tmp_path / "run")
    name, *rest = verb
    status, shown, err = cli(name, tmp_path / "run", *rest, "--where", filter_)
    assert (status, shown, err.count("\n")) == (2, "", 1)
    assert said in err


def test_filters_that_match_one_by_one_and_not_together() -> None:
    with pytest.raises(UserError, match="--where limit=64 --where method=tent: no record matches all"):
        comparison(MIXED, [("limit", "64"), ("method", "tent")])


def fill(folder: Path) -> None:
    store = Store.create(folder, "s")
    for record in (*MIXED, made("tent", 3, limit=64)):
        keep(store, record, predict(np.arange(100) % 2 == 0))


def test_the_verbs_read_the_group_that_is_asked_for(cli: Cli, tmp_path: Path) -> None:
    fill(tmp_path / "run")
    status, shown, _ = cli("report", tmp_path / "run", "--format", "terminal")
    assert (status, "NOT REPORTABLE" in shown, "2 records with limit=64" in shown) == (0, False, True)
    status, shown, _ = cli("report", tmp_path / "run", "--format", "terminal", "--where", "limit=64")
    assert (status, "NOT REPORTABLE: only the first 64" in shown) == (0, True)
    status, shown, _ = cli("compare", tmp_path / "run", "--a", "sar", "--b", "tent", "--where", "limit=64")
    assert (status, "NOT REPORTABLE" in shown) == (0, True)
    out = tmp_path / "curve.svg"
    status, shown, _ = cli("figure", tmp_path / "run", "curve", "--where", "limit=64", "--out", out)
    assert (status, "NOT REPORTABLE" in shown, out.exists()) == (0, True, True)


def test_an_inspection_has_no_records_to_choose_from(cli: Cli, tmp_path: Path) -> None:
    status, _, err = cli("figure", tmp_path, "tsne", "--where", "limit=64")
    assert (status, "figure tsne has no option --where" in err) == (2, True)


def test_failures_of_another_group_do_not_count(cli: Cli, tmp_path: Path) -> None:
    fill(tmp_path / "run")
    Store.open(tmp_path / "run").save(make_failure("sar", "it broke", limit=32), None)
    assert cli("report", tmp_path / "run", "--format", "terminal")[0] == 0
    assert cli("report", tmp_path / "run", "--format", "terminal", "--where", "limit=32")[0] == 1


def test_the_help_names_every_key() -> None:
    assert where.KEYS.split(", ") == list(KEYS)
