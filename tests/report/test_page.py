"""The page: everything is in it, and only its own script runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from configparser import ConfigParser
from typing import Any

import numpy as np
import pytest

from tests.support.checkout import ROOT
from tests.support.pages import EVIL, Reader, data, large_page, made, predictions
from tests.support.papers import shipped
from tests.support.records import changed, make_failure, make_record
from tta_bench.records.cell import Cell
from tta_bench.records.predictions import Predictions
from tta_bench.report.leaderboard import CLOSE_NOTE, Close
from tta_bench.report.page import page
from tta_bench.report.page.data import Errors, interval
from tta_bench.report.rows import compare
from tta_bench.report.runs import Outline
from tta_bench.report.tables import accuracy_table
from tta_bench.report.values import Value


@pytest.fixture(scope="module")
def large() -> str:
    return large_page()


def test_a_name_is_text_wherever_it_comes_from() -> None:
    evil = make_record(EVIL, task=EVIL, settings={EVIL: EVIL})
    evil = changed(evil, environment={EVIL: EVIL, "device_name": EVIL, "threads": 1}, score_point=EVIL)
    failed = make_failure("tent", f"{EVIL} --> {{{{ title }}}}", task=EVIL)
    text = made([evil, failed], title=f"{EVIL}</title>", warnings=(EVIL,))
    seen = Reader(text)
    assert [tag for tag, _ in seen.elements].count("script") == 2
    assert seen.text.count(EVIL) > 8
    assert "{{ title }}" in seen.text
    assert EVIL not in text
    assert data(text)["methods"][0]["label"] == EVIL


def test_it_requests_nothing_from_outside(large: str) -> None:
    seen = Reader(large)
    links = [value for _, attrs in seen.elements for key, value in attrs.items() if key in ("href", "src", "srcset")]
    assert links
    assert all(link and link.startswith("#") for link in links)
    assert not re.search(r"@import|url\((?!#)", large)
    assert set(re.findall(r"https?://[^\s\"']+", large)) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    policies = [attrs["content"] for tag, attrs in seen.elements if tag == "meta" and "http-equiv" in attrs]
    assert [str(policy).split(";")[0] for policy in policies] == ["default-src 'none'"]


def test_it_stays_small(large: str) -> None:
    assert len(large.encode()) < 1_000_000
    curves = [curve for method in data(large)["methods"] for seeds in method["curves"].values() for curve in seeds]
    assert len(curves) == 12 * 15 * 3
    assert {len(curve["running"]) for curve in curves} == {100}


def test_its_numbers_are_those_of_the_tables() -> None:
    records = [
        make_record(method, top1 + seed / 50, task=task, seed=seed)
        for method, top1 in (("source", 0.5), ("tent", 0.6))
        for task in ("fog", "snow")
        for seed in (0, 1)
    ]
    text = made(records)
    for _, values in accuracy_table(compare(records)).rows:
        for value in values[:3]:
            assert f'{value.mean:.1f} <span class="spread">±{value.std:.1f}</span>' in text
    assert data(text)["methods"][1]["scores"] == [61.0, 61.0, 61.0]
    assert data(text)["methods"][1]["texts"] == ["61.0", "61.0", "61.0"]
    for word in ("ms/image", "× Source", "scored", "pre-update", "fwd", "bwd", "src"):
        assert word in text


@pytest.mark.parametrize(("top1", "shown"), [(0.7625, "76.2"), (0.76149, "76.1"), (0.76151, "76.2"), (0.3875, "38.8")])
def test_a_number_is_rounded_once(top1: float, shown: str) -> None:
    """76.149 is 76.1 in the table: rounded to 76.15 first, or by JavaScript, it would be 76.2 in a chart."""
    text = made([make_record("tent", top1)])
    (method,) = data(text)["methods"]
    assert (method["texts"], method["curves"]["fog"][0]["end"]) == ([shown, shown], shown)
    assert f">{shown}</button></td>" in text
    assert method["scores"][0] == pytest.approx(100 * top1)


def test_notes_and_warnings_are_shown() -> None:
    records = [make_record("source", limit=100), make_failure("sar", "out of memory: use less", limit=100)]
    seen = Reader(made(records, warnings=("the clock ran backwards",))).text
    for note in (
        "NOT REPORTABLE",
        "out of memory: use less",
        "WARNING the clock ran backwards",
        "chip",
        "Failed cells",
    ):
        assert note in seen
    assert "Failed cells" not in Reader(made(records[:1])).text


def test_settings_and_environment_of_each_row_are_shown() -> None:
    first = make_record("tent", settings={"lr": 0.125, "seed": 0})
    second = changed(
        make_record("tent", settings={"lr": 0.125, "seed": 1}, seed=1), environment={"device_name": "other"}
    )
    seen = Reader(made([first, second])).text
    assert "lr0.125" in seen
    assert "device_namechip / other" in seen


def test_curves_end_at_the_accuracy_and_predictions_are_read_once() -> None:
    record = make_record("tent", 0.3)
    asked: list[Cell] = []

    def read(cell: Cell) -> Predictions:
        asked.append(cell)
        return predictions([0, 1, 0, 1, 0, 1, 0, 0, 0, 0])

    curve = data(page(compare([record]), read, "t"))["methods"][0]["curves"]["fog"][0]
    assert curve["running"][:3] == [0, 5000, 3333]
    assert curve["running"][-1] == 3000
    assert asked == [record.cell]


def test_a_stream_over_several_tasks_has_one_curve_and_an_interval_of_its_average() -> None:
    record = make_record("tent", 0.5, tasks=("fog", "snow"), scenario="mixed")
    method = data(made([record]))["methods"][0]
    assert list(method["curves"]) == ["s mixed"]
    assert method["streams"] == {"fog": "s mixed", "snow": "s mixed"}
    assert method["intervals"][:2] == [None, None]
    assert method["intervals"][2][0] < 50 < method["intervals"][2][1]


def outline(index: Any, correct: Any) -> Outline:
    return Outline(index, np.zeros_like(index), correct)


@pytest.mark.parametrize("tasks", [1, 5])
def test_intervals_cover_when_all_tasks_and_seeds_show_the_same_images(tasks: int) -> None:
    """Errors that are shared must not average out: a naive interval over 5 x 3 x 200 answers covers 43 %."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        hard = rng.random(200)
        streams = []
        for _ in range(tasks):
            own = 0.7 * hard + 0.3 * rng.random(200)
            orders = [rng.permutation(200) for _ in range(3)]
            streams.append([outline(order, own[order] < 0.5) for order in orders])
        mean = 100 * float(np.mean([seed.correct.mean() for seeds in streams for seed in seeds]))
        bounds = interval(Value(mean, 0.0), [Errors.of(parts) for parts in streams])
        assert bounds is not None
        covered += bounds[0] <= 50 <= bounds[1]
    assert 0.92 <= covered / 300 <= 0.98


def test_an_interval_is_never_empty_nor_outside() -> None:
    all_right = Errors.of([outline(np.arange(100), np.ones(100, dtype=bool))])
    low, high = interval(Value(100.0), [all_right]) or (0, 0)
    assert 95 < low < 97
    assert high == pytest.approx(100)
    assert interval(Value(), [all_right]) is None
    two_seeds = Errors.of([outline(np.arange(100), np.arange(100) < 50)] * 2)
    spread, plain = interval(Value(50.0, 10.0), [two_seeds]), interval(Value(50.0, 0.0), [two_seeds])
    assert spread is not None
    assert plain is not None
    assert spread[0] < plain[0]


def test_its_files_are_package_data() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = setup["options.package_data"]["tta_bench.report.page"].replace(",", " ").split()
    for path in (ROOT / "tta_bench/report/page").iterdir():
        assert path.suffix in (".py", ".pyc", "") or f"*{path.suffix}" in listed


def test_it_imports_no_torch() -> None:
    code = "import sys, tta_bench.report.page; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_rows_that_may_equal_the_best_are_marked_visibly_and_for_screen_readers() -> None:
    records = [make_record("sar", 0.61), make_record("tent", 0.6), make_record("source", 0.4)]
    text = made(records, close=Close(frozenset({"tent"}), (CLOSE_NOTE,)))
    rows = {row.split("</a>")[0].split(">")[-1]: row for row in re.findall(r'<tr data-row="\d+">.*?</tr>', text)}
    assert {label: "≈" in row for label, row in rows.items()} == {"sar": False, "tent": True, "source": False}
    assert '<span class="unseen">not distinguishable from the best: </span>60.0</td>' in rows["tent"]
    assert CLOSE_NOTE.text in Reader(text).text
    assert "≈" not in made(records)


def test_published_numbers_are_shown_with_the_reasons_against_comparing() -> None:
    text = made([*shipped("source", top1=0.47), *shipped("eata", limit=None, batch_size=64)])
    seen = Reader(text)
    assert "Measured and published" in seen.text
    section = text[text.index('<section id="paper"') : text.index('<section id="curve-section"')]
    row = re.search(
        r'<tr class="difference"><th scope="row"><span>source, difference</span></th><td>(.*?)</td>.*?</tr>', section
    )
    assert row is not None
    assert row[1] == "+0.1"
    assert row[0].endswith("<td>yes</td></tr>")
    assert '<td>no: <a href="#reason-a">a</a></td>' in section
    assert '<li id="reason-a">Not comparable, a: cited from the Benchmark-TTA paper' in section
    assert "Measured and published" not in made([make_record("sar")])


def test_names_are_text_beside_published_numbers_too() -> None:
    odd = [changed(record, label=EVIL) for record in shipped("source")]
    text = made([*shipped("sar"), *odd])
    assert f"Not in the paper: {EVIL}." in Reader(text).text
    assert EVIL not in text


def test_times_that_contradict_counts_or_shared_a_machine_are_not_drawn_as_others() -> None:
    shared = {"device_name": "chip", "threads": 2, "shared": True}
    records = [changed(make_record(name, ms=ms), environment=shared) for name, ms in (("source", 1.0), ("eata", 0.7))]
    text = made(records)
    assert "WARNING Times contradict the counts of passes" in Reader(text).text
    methods = [json.loads(part) for part in re.findall(r'"costs": ?({[^}]*})', text)]
    assert "× Source (shared with other jobs)" in methods[0]
    assert not [name for name in methods[1] if "Source" in name or "ms" in name]


def test_a_slow_first_batch_is_a_warning_here_too() -> None:
    record = make_record("slow")
    slow = changed(record, batch_seconds=[60.0, *record.measured.batch_seconds[1:]])
    assert "WARNING first batch far slower" in Reader(made([make_record("source"), slow])).text
