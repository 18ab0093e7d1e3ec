"""The tools behind results/: what a grid tried, and whether a table was made again to the digit."""

from __future__ import annotations

from pathlib import Path

from benchmarks import same_results, tuning_record
from tests.support.records import keep, make_record
from tta_bench.records.store import Store
from tta_bench.report.leaderboard import tidy_csv
from tta_bench.report.rows import compare


def test_a_grid_is_named_by_what_it_varied(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "digits-c-holdout")
    for lr, top1 in ((0.1, 0.5), (0.3, 0.6)):
        for seed in (0, 1):
            content = {"settings": {"lr": lr, "momentum": 0.9, "seed": seed}, "seed": seed}
            keep(store, make_record("sar", top1, suite="digits-c-holdout", task="fog", **content))
    keep(store, make_record("t3a", 0.4, suite="digits-c-holdout", task="fog", settings={"filter_k": 20}))
    found = tuning_record.record(str(tmp_path / "run"))
    assert list(zip(found["method"], found["settings"], found["seeds"], strict=True)) == [
        ("sar", "lr=0.3", "0 1"),
        ("sar", "lr=0.1", "0 1"),
        ("t3a", "as published", "0"),
    ]


def test_a_changed_accuracy_is_found(tmp_path: Path) -> None:
    then, now = (Store.create(tmp_path / name, "digits-c-5") for name in ("then", "now"))
    kept = [keep(then, make_record(method, 0.6, task="fog")) for method in ("sar", "tent")]
    (tmp_path / "leaderboard.csv").write_text(tidy_csv(compare(kept)))
    earlier = same_results.made_earlier(tmp_path / "leaderboard.csv")
    keep(now, make_record("sar", 0.6, task="fog"))
    assert same_results.differences(earlier, same_results.made_now(tmp_path / "now")) == []
    keep(now, make_record("tent", 0.5, task="fog"))
    found = same_results.differences(earlier, same_results.made_now(tmp_path / "now"))
    assert found[0] == "tent on fog, seed 0: top1 was 0.6000, is 0.5000"
