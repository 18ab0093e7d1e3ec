"""The page in a real browser: it sorts, filters, draws and speaks without an error or a request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chromium import PROGRAM, Chromium, chromium
from tests.support.pages import EVIL, METHODS, large_page, made
from tests.support.papers import shipped
from tests.support.records import make_failure, make_record
from tta_bench.records.record import Record
from tta_bench.report.leaderboard import Close

needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no chromium found: apt-get install chromium")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def large() -> str:
    return large_page()


@pytest.fixture
def view(browser: Chromium, large: str, tmp_path: Path) -> Iterator[Chromium]:
    """The large page, open; whatever a test does with it must end without an error or a request."""
    path = tmp_path / "page.html"
    path.write_text(large)
    browser.problems.clear()
    browser.requests.clear()
    browser.open(path)
    yield browser
    browser.run("localStorage.clear()")
    assert browser.problems == []
    assert set(browser.requests) == {path.as_uri()}


FIRST_COLUMN = "[...document.querySelectorAll('#leaderboard tbody tr:not([hidden]) th')].map(e => e.textContent)"


def column(view: Chromium, number: int) -> list[float]:
    cells = f"document.querySelectorAll('#leaderboard tbody tr td:nth-child({number})')"
    return [float(text) for text in view.run(f"[...{cells}].map(e => e.dataset.value)")]


@needs_browser
def test_it_opens_within_a_second(view: Chromium, tmp_path: Path) -> None:
    took = []
    for _ in range(3):  # the machine may be busy with something else
        view.open(tmp_path / "page.html")
        view.wait("performance.timing.loadEventEnd > 0")
        took.append(view.run("performance.timing.loadEventEnd - performance.timing.navigationStart"))
    assert min(took) < 1000


@needs_browser
def test_columns_sort_by_mouse_and_keyboard(view: Chromium) -> None:
    assert column(view, 2) == sorted(column(view, 2), reverse=True)
    view.click("thead th:nth-child(4) button")
    assert column(view, 4) == sorted(column(view, 4), reverse=True)
    assert view.run("document.querySelector('thead th:nth-child(4)').ariaSort") == "descending"
    view.key("Enter")
    assert column(view, 4) == sorted(column(view, 4))
    assert view.run("document.querySelectorAll('thead [aria-sort=ascending]').length") == 1
    view.click("thead th button")
    assert view.run(FIRST_COLUMN) == sorted(METHODS)


@needs_browser
def test_words_filter_rows_and_charts(view: Chromium) -> None:
    view.click("#filter")
    view.type("METHOD -a")
    assert view.run(FIRST_COLUMN) == ["method-a"]
    assert view.run("document.getElementById('shown').textContent") == "1 of 12 methods"
    assert view.run("document.querySelectorAll('#bars rect.fill').length") == 1
    view.type(" nothing of this name")
    assert view.run(FIRST_COLUMN) == []
    assert not view.run("document.getElementById('nothing').hidden")


@needs_browser
def test_a_cell_shows_its_curve(view: Chromium) -> None:
    view.click('tr[data-row="3"] button[data-task="fog"]')
    caption = "document.getElementById('curve-caption').textContent"
    assert view.run(caption).startswith("method-c on fog: ")
    assert "95 %" in view.run(caption)
    assert view.run("document.querySelectorAll('#curve path.seed').length") == 3
    assert view.run("document.querySelectorAll('#curve path.curve').length") == 12 + 3
    assert view.run("document.querySelector('#curve path.chosen').getTotalLength()") > 100
    assert view.run("document.querySelectorAll('[aria-pressed=true]').length") == 1
    view.key("ArrowRight")
    view.key("ArrowRight")
    view.key("Enter")
    assert view.run(caption).startswith("method-c on contrast: ")
    view.key("ArrowDown")
    view.key(" ")
    assert view.run(caption).startswith("method-b on contrast: ")  # the next in the order of the average


@needs_browser
def test_charts_are_drawn_and_described(view: Chromium) -> None:
    for chart in ("curve", "bars", "cost"):
        assert view.run(f"document.querySelector('#{chart} svg').getAttribute('role')") == "img"
        assert "ccuracy" in view.run(f"document.querySelector('#{chart} svg > title').textContent")
        assert "method-a" in view.run(f"document.querySelector('#{chart} svg > desc').textContent")
    assert view.run("document.querySelectorAll('#bars .whisker').length") == 12
    assert view.run("document.querySelectorAll('#cost circle').length") == 12
    view.click("#bars-zoom")
    assert view.run("document.querySelectorAll('#bars circle').length") == 12
    nodes = view.send("Accessibility.getFullAXTree")["nodes"]
    for role in ("image", "button", "combobox", "searchbox", "checkbox", "table", "region"):
        names = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == role]
        assert names, role
        assert all(names), f"a {role} has no name"


@needs_browser
def test_a_name_opens_its_settings(view: Chromium) -> None:
    view.click('tr[data-row="2"] th a')
    view.wait("document.getElementById('row-2').open")


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark(view: Chromium, dark: bool, tmp_path: Path) -> None:
    view.open(tmp_path / "page.html", dark=dark)
    ground = "getComputedStyle(document.body).backgroundColor"
    before = view.run(ground)
    assert (sum(map(int, re.findall(r"\d+", before)[:3])) < 300) == dark
    view.click("#theme")
    after = view.run(ground)
    assert after != before
    view.open(tmp_path / "page.html", dark=dark)
    assert view.run(ground) == after  # the choice is kept


@needs_browser
def test_a_phone_scrolls_only_the_table(view: Chromium, tmp_path: Path) -> None:
    view.open(tmp_path / "page.html", width=360, height=740)
    assert view.run("document.documentElement.scrollWidth") == 360
    assert view.run("document.querySelector('.scroll').scrollWidth") > 720
    view.run("document.querySelector('.scroll').scrollLeft = 400")
    name = "document.querySelector('#leaderboard tbody th').getBoundingClientRect()"
    assert 0 <= view.run(f"{name}.left") < 30
    assert view.run(f"{name}.width") < 180


@needs_browser
def test_a_script_in_a_name_does_not_run(browser: Chromium, tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='run'\">" + EVIL
    records = [make_record("source", 0.4, task=evil), make_record(evil, 0.6, task=evil, ms=3)]
    (tmp_path / "evil.html").write_text(made([*records, make_failure("sar", evil, task=evil)], title=evil))
    browser.problems.clear()
    browser.open(tmp_path / "evil.html")
    browser.click("td.score button")
    browser.click("#bars-zoom")
    assert browser.run("document.title") == evil
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert evil in browser.run("document.getElementById('curve-caption').textContent")
    assert browser.problems == []


@needs_browser
@pytest.mark.parametrize(
    "records",
    [
        [make_failure("tent", "broken")],
        [make_record("tent", 1.0)],
        [make_record("tent", 0.5), make_failure("tent", "broken", seed=1), make_record("sar", 0.0, ms=90)],
        [make_record("tent", tasks=("fog", "snow"), scenario="mixed")],
    ],
    ids=["all failed", "one cell", "a failed seed", "one stream of two tasks"],
)
def test_odd_runs_are_drawn_without_errors(browser: Chromium, records: list[Record], tmp_path: Path) -> None:
    (tmp_path / "odd.html").write_text(made(records))
    browser.problems.clear()
    browser.open(tmp_path / "odd.html")
    browser.click("#bars-zoom")
    browser.click("thead th:nth-child(3) button")
    assert browser.problems == []
    assert browser.run("document.getElementById('curve-caption').textContent")
    assert "NaN" not in browser.run("document.body.outerHTML.replace(/<script[^]*?<\\/script>/g, '')")


@needs_browser
@pytest.mark.parametrize("width", [360, 1200])
def test_published_numbers_and_marks_in_a_browser(browser: Chromium, tmp_path: Path, width: int) -> None:
    text = made(
        [*shipped("source", top1=0.47), *shipped("eata", top1=0.6), *shipped("sar", top1=0.6)],
        close=Close(frozenset({"sar"})),
    )
    (tmp_path / "paper.html").write_text(text)
    browser.problems.clear()
    browser.open(tmp_path / "paper.html", width=width, height=740)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.click("#paper td a")
    browser.wait("document.querySelector('li:target').id == 'reason-a'")
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    spoken = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == "cell" and "name" in node]
    assert any("not distinguishable from the best: 60.0" in name for name in spoken)
    assert browser.problems == []
