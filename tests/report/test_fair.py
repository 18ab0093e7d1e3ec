"""Incomparable records never share a table; the message says which cells, and what to run again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.records import make_record
from tta_bench.errors import UnmatchedStreams, UserError
from tta_bench.records.record import Record
from tta_bench.report.rows import by_table, compare
from tta_bench.report.tables import accuracy_table
from tta_bench.suites import suite


def shipped(method: str, name: str, task: str, top1: float = 0.5, **changes: Any) -> Record:
    found = suite.load(name)
    return make_record(method, top1, **{"suite": name, "data": found.data, "task": task, **changes})


def test_different_orders_never_share_a_table() -> None:
    records = [make_record("sar"), make_record("dpal", stream="other order")]
    with pytest.raises(UnmatchedStreams, match=r"fog, seed 0: .*sar \(order of fog.*dpal \(other order\).*--seeds 0"):
        compare(records)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"weights": "x"},
            "different source weights: sar on fog, seed 0 and 1 more: m w; dpal on fog, seed 0: m x: run dpal again",
        ),
        ({"model": "n"}, "different source weights: .*run dpal again with --model m"),
        ({"batch_size": 5}, "different batch sizes: .* 1 more: 10; dpal .*: 5: run dpal again with --batch-size 10"),
        ({"scenario": "single"}, "different scenarios: .*with --scenario normal"),
        ({"device": "cuda"}, "different devices: .*with --device cpu"),
        ({"data_code": "e"}, "different images or image code: .*run dpal again"),
        ({"images": "another tree"}, "different images or image code: .*run dpal again"),
        ({"limit": 64}, "different limits: .*: none; dpal .*: 64: run dpal again with"),
        ({"suite": "t"}, "belong to different tables: s, t"),
    ],
)
def test_incomparable_records_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        compare([make_record("sar"), make_record("sar", task="snow"), make_record("dpal", **change)])


@pytest.mark.parametrize(("limits", "said"), [((64, 32), "with --limit 64"), ((32, 64), "with --limit 32")])
def test_limits_differ(limits: tuple[int, int], said: str) -> None:
    first, second = limits
    records = [make_record("sar", limit=first), make_record("sar", task="snow", limit=first)]
    with pytest.raises(UserError, match=f"different limits: .*run dpal again {said}"):
        compare([*records, make_record("dpal", limit=second)])


def test_other_versions_of_the_harness_are_noted() -> None:
    old, new = make_record("source", harness="old"), make_record("tent", harness="new")
    said = "WARNING made by different versions of tta-bench: source by old; tent by new."
    assert said in map(str, compare([old, new]).notes)
    assert not any("versions" in note for note in map(str, compare([old, make_record("tent", harness="old")]).notes))


def test_three_suites_make_one_table_of_the_paper() -> None:
    records = [
        shipped(method, name, name)
        for name in ("visda-2021", "imagenet-a", "imagenet-r")
        for method in ("source", "sar")
    ]
    assert list(by_table(records)) == ["imagenet-r-a-v"]
    table = accuracy_table(compare(records))
    assert table.columns[:4] == ("ImageNet-R", "ImageNet-A", "VisDA-2021", "Avg.")
    assert [label for label, _ in table.rows] == ["source", "sar"]


def test_suites_that_share_no_table_stay_apart() -> None:
    records = [shipped("sar", "imagenet-c-5", "fog"), shipped("sar", "imagenet-c-3", "fog")]
    assert list(by_table(records)) == ["imagenet-c-5", "imagenet-c-3"]


def test_your_own_suite_does_not_join_the_table_of_a_shipped_namesake() -> None:
    assert list(by_table([make_record("sar", suite="imagenet-r")])) == ["imagenet-r"]


def test_each_domain_of_office_home_has_its_own_source_model() -> None:
    tasks = ("Art-to-Clipart", "Art-to-Product", "Product-to-Art")
    records = [
        shipped(m, "office-home", task, model=f"from {task[:3]}", weights=task[:3])
        for m in ("sar", "tent")
        for task in tasks
    ]
    table = accuracy_table(compare(records))
    assert table.columns[:3] == ("A→C", "A→P", "P→A")
    assert len(table.rows) == 2
    other = shipped("dpal", "office-home", "Art-to-Clipart", model="from Art", weights="other")
    with pytest.raises(UserError, match="different source weights"):
        compare([*records, other])


def test_tables_of_images_made_here_say_so() -> None:
    record = make_record("source")
    made = make_record("source", data={"kind": "cifar-c", "made_by": "make-corrupted"})
    note = "Images by make-corrupted, not the published ones."
    assert note in map(str, compare([made]).notes)
    assert note not in map(str, compare([record]).notes)
