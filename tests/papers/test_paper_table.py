"""Published numbers beside measured ones, and the reasons why some are not comparable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.papers import row, shipped
from tests.support.records import changed, make_record
from tta_bench.report.paper import paper_table
from tta_bench.report.rows import compare


def test_measured_paper_and_difference_follow_each_other() -> None:
    table = paper_table(compare([*shipped("source", top1=0.47), *shipped("sar")]))
    assert table is not None
    assert [label for label, _ in table.rows][:3] == ["source", "source, paper", "source, difference"]
    assert [row(table, label)["gaus"] for label, _ in table.rows[:3]] == ["47.0", "46.9", "+0.1"]
    assert row(table, "source, difference")["comparable"] == "yes"
    assert row(table, "sar, paper")["Avg."] == "63.6"
    assert row(table, "sar, difference")["Avg."] == "-3.6"
    assert any(
        note.startswith("In the paper and not measured here: t3a (32.2), cotta (44.4), dda")
        for note in map(str, table.notes)
    )


def test_an_average_is_compared_over_the_same_tasks() -> None:
    """The paper's own average covers tasks that were not run."""
    some = [record for record in shipped("source", top1=0.5) if record.cell.spec.tasks[0] in ("fog", "contrast")]
    table = paper_table(compare(some))
    assert table is not None
    assert row(table, "source, paper")["Avg."] == "44.1"  # fog 56.5, contrast 31.8; 51.0 over all
    assert row(table, "source, difference")["Avg."] == "+5.9"
    assert "Avg.: without 13 of the paper's 15 tasks, on both sides." in map(str, table.notes)


@pytest.mark.parametrize(
    ("method", "change", "reason"),
    [
        ("sar", {"model": "vit_base_patch16_224.augreg2_in21k_ft_in1k"}, "other weights: vit_base_patch16_224.augreg2"),
        ("sar", {"scenario": "label-shift"}, "other scenario: label-shift, the paper's is normal"),
        ("sar", {"limit": 64}, "only the first 64 images"),
        (
            "sar",
            {"mean": (0.485, 0.456, 0.406)},
            "images normalised with mean 0.485, 0.456, 0.406, the paper's with 0.5",
        ),
        ("sar", {"batch_size": 32}, "batches of 32 images, the paper's of 64"),
        ("sar", {"amp": "bf16"}, "adapted in bf16"),
        ("sar", {"data": {"kind": "imagenet-c", "made_by": "make-corrupted"}}, "images by make-corrupted, not the"),
        ("sar", {"data": {"kind": "imagenet-c", "allow_partial": True}}, "a part of the published images"),
        ("sar", {"settings": {"lr": 0.1}}, "other settings than the paper's or the suite's: lr=0.1 for None"),
        ("eata", {}, "cited from the Benchmark-TTA paper: its released code normalises images for this ViT with"),
        ("dpal", {}, "scored pre-update: the paper's text scores the first forward, its released code the second"),
    ],
)
def test_rows_that_are_not_comparable_say_why(method: str, change: dict[str, Any], reason: str) -> None:
    table = paper_table(compare(shipped(method, **change)))
    assert row(table, next(label for label, _ in table.rows if label.endswith("difference")))["comparable"] == "no: a"
    assert str(table.notes[0]).startswith(f"Not comparable, a: {reason}")


def test_the_released_dpal_is_shown_beside_the_papers() -> None:
    records = [changed(r, score_point="perturbed") for r in shipped("dpal-official")]
    table = paper_table(compare(records))
    assert row(table, "dpal-official, paper")["Avg."] == "67.0 ±0.1"
    assert "scored perturbed: the paper's text" in str(table.notes[0])


def test_another_score_point_is_a_reason() -> None:
    table = paper_table(compare([changed(r, score_point="perturbed") for r in shipped("sar")]))
    assert "scored perturbed, the paper's pre-update" in str(table.notes[0])


def test_failed_and_missing_cells_have_no_difference() -> None:
    first, second, *rest = shipped("sar")
    table = paper_table(compare([*shipped("source"), replace(first, status="failed"), *rest]))
    shown = row(table, "sar, difference")
    assert (shown["gaus"], shown["shot"], shown["Avg."]) == ("failed", "missing", "–")
    assert second.cell.name == "shot_noise"


def test_one_table_of_three_suites() -> None:
    records = [record for name in ("imagenet-r", "imagenet-a", "visda-2021") for record in shipped("sar", name)]
    table = paper_table(compare(records))
    assert row(table, "sar, paper") == {
        "ImageNet-R": "62.0",
        "ImageNet-A": "45.3",
        "VisDA-2021": "60.1",
        "Avg.": "–",
        "comparable": "reproduced",
    }


def test_images_that_the_released_code_resizes_differently_are_a_reason() -> None:
    data = {"kind": "class-folders", "transform": {"interpolation": "bicubic"}}
    table = paper_table(compare(shipped("sar", "imagenet-r", data=data)))
    assert "resized bicubic, the paper's bilinear" in str(table.notes[0])
    data["transform"] = {"interpolation": "bilinear"}
    assert not any(note.mark for note in paper_table(compare(shipped("sar", "imagenet-r", data=data))).notes)


def test_office_home_has_its_own_source_models() -> None:
    table = paper_table(compare(shipped("tent", "office-home")))
    assert row(table, "tent, paper")["A→C"] == "69.1"
    assert "fine-tuned here" in str(table.notes[0])


def test_the_components_and_their_variants() -> None:
    records = [
        record
        for label, method in (("sar", "sar"), ("sar-at-dpal-rate", "sar"), ("dst", "dpal"), ("dpal", "dpal"))
        for record in shipped(method, "ablation-components", label=label)
    ]
    table = paper_table(compare(records))
    assert {label: str(values[1]) for label, values in table.rows} == {"sar": "63.6", "dst": "62.5", "dpal": "67.0"}
    assert "Not in the paper: sar-at-dpal-rate." in map(str, table.notes)


def test_the_number_of_tokens() -> None:
    records = [r for n in (1, 2, 4, 8) for r in shipped("dpal", "ablation-tokens", label=f"tokens-{n}")]
    table = paper_table(compare(records))
    assert [str(values[1]) for _, values in table.rows] == ["67.0", "66.4", "62.6", "66.6"]


def test_a_suite_that_is_not_in_the_paper_has_no_such_table() -> None:
    assert paper_table(compare([make_record("sar")])) is None
