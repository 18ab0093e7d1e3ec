"""The tools behind results/ and README: what a grid tried, and whether a table was made again."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from benchmarks import demo_table, same_results, streams_table, summary_table, tuning_record
from tests.support.checkout import ROOT
from tests.support.records import keep, make_record
from tta_bench.records.store import Store
from tta_bench.report.leaderboard import tidy_csv
from tta_bench.report.rows import compare
from tta_bench.suites import suite

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = [
    (document, folder)
    for document in DOCUMENTS
    for folder in re.findall(r"<!-- summary of (\S+) -->", document.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("document", "folder"), SHOWN, ids=lambda value: getattr(value, "name", value))
def test_a_document_shows_the_table_of_its_results(document: Path, folder: str) -> None:
    (shown,) = summary_table.marked(folder).findall(document.read_text(encoding="utf-8"))
    assert shown == summary_table.table(ROOT / folder)


def test_a_table_is_written_only_into_its_own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    document, folder = tmp_path / "page.md", "results/digit-pairs-c-5"
    document.write_text(f"<!-- summary of {folder} -->\n<!-- end -->\nbetween\n<!-- end -->\n")
    for _ in range(2):
        summary_table.main([folder, str(document)])
        text = document.read_text(encoding="utf-8")
        assert text.endswith("<!-- end -->\nbetween\n<!-- end -->\n")
        assert text.count("| sar |") == 1


def test_the_first_table_of_the_readme_comes_from_results() -> None:
    text = DOCUMENTS[0].read_text(encoding="utf-8")
    assert text.index("<!-- summary of ") < text.index("|---")


def test_the_readme_says_what_the_resnet_reached() -> None:
    rows = csv.DictReader((ROOT / "results" / "cifar10-c-5-resnet20" / "accuracy.csv").read_text().splitlines())
    found = {row["method"]: f"{float(row['Avg.']):.1f} %" for row in rows}
    (said,) = re.findall(r"With a BatchNorm ResNet-20.*?\(\[all", DOCUMENTS[0].read_text(encoding="utf-8"), re.DOTALL)
    assert re.findall(r"[\d.]+ %", said) == [found[row] for row in ("source", "bn-test", "tent", "eata", "sar")]


def test_the_study_of_streams_shows_its_leaderboards() -> None:
    folder = ROOT / "results" / "cifar10-c-streams"
    (shown,) = streams_table.MARKED.findall((folder / "README.md").read_text(encoding="utf-8"))
    streams = re.findall(r"`(\S+)`", shown.splitlines()[0])
    assert shown == streams_table.table(folder, streams)


def test_a_fall_below_source_is_marked_only_where_shuffled_labels_gain(tmp_path: Path) -> None:
    reached = {"iid": {"source": 0.5, "tent": 0.7, "lame": 0.2}, "sorted": {"source": 0.5, "tent": 0.3, "lame": 0.4}}
    for stream, rows in reached.items():
        (tmp_path / stream).mkdir()
        lines = [f"{row},done,{top1}\n" for row, top1 in rows.items()]
        (tmp_path / stream / "leaderboard.csv").write_text("label,status,top1\n" + "".join(lines))
    lines = streams_table.table(tmp_path, ["iid", "sorted"]).splitlines()[2:]
    assert lines == ["| tent | 70.0 | 30.0 ▼ |", "| source | 50.0 | 50.0 |", "| lame | 20.0 | 40.0 |"]


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


def test_an_only_setting_is_as_published_if_it_is(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "digits-c-holdout")
    for lr in (None, 0.1):
        keep(store, make_record("tent", lr or 0.5, suite="digits-c-holdout", task="fog", settings={"lr": lr}))
    keep(store, make_record("t3a", 0.4, suite="digits-c-holdout", task="fog", settings={"filter_k": 50}))
    found = tuning_record.record(str(tmp_path / "run"))
    assert list(found["settings"]) == ["filter_k=50", "lr=published", "lr=0.1"]


def test_settings_that_were_not_tried_on_every_task_are_left_out(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "digits-c-holdout")
    for lr, tasks in ((0.1, ("fog", "snow")), (0.3, ("fog",))):
        for task in tasks:
            keep(store, make_record("sar", 0.5, suite="digits-c-holdout", task=task, settings={"lr": lr}))
    assert list(tuning_record.record(str(tmp_path / "run"))["settings"]) == ["lr=0.1"]


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


def test_the_readme_shows_the_methods_of_the_demo() -> None:
    (marked,) = demo_table.MARKED.findall((ROOT / "README.md").read_text())
    shown = demo_table.parsed(demo_table.first_table(marked))
    assert list(dict.fromkeys(method for method, _ in shown)) == list(suite.load("demo").methods)


def test_a_demo_with_other_numbers_than_the_readme_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = "| method | snow | scored |\n|---|---:|---:|\n| tent | **52.0** | pre-update |\n"
    monkeypatch.setattr(demo_table, "README", tmp_path / "README.md")
    monkeypatch.setattr(demo_table, "REPORT", tmp_path / "report.md")
    demo_table.REPORT.write_text(f"### demo\n\n{table}\n- Seed 0.\n\n| other |\n")
    demo_table.README.write_text("One.\n<!-- make demo -->\n<!-- end -->\nTwo.\n")
    assert demo_table.main(["--write"]) == 0
    assert demo_table.README.read_text() == f"One.\n<!-- make demo -->\n{table}<!-- end -->\nTwo.\n"
    for old, new, status in (("**52.0**", "52.0", 0), ("52.0", "53.9", 0), ("53.9", "54.1", 1)):
        demo_table.REPORT.write_text(demo_table.REPORT.read_text().replace(old, new))
        assert demo_table.main([]) == status
    assert "tent, snow: README has 52.0, the demo 54.1" in capsys.readouterr().out
    demo_table.REPORT.write_text(table.replace("pre-update", "perturbed"))
    assert demo_table.main([]) == 1
