"""The board's site in a real browser: rows, sorting, filtering, differences, curves; strange names stay text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.board_runs import TASKS, add_submission, make_run
from tests.support.chromium import PROGRAM, Chromium, chromium
from tta_bench.board.site import build
from tta_bench.board.site.gather import gather_runs
from tta_bench.board.site.suites import ranks
from tta_bench.board.submission import read_submission
from tta_bench.cli.main import main
from tta_bench.errors import UserError
from tta_bench.report.choose import comparison
from tta_bench.report.differences import Difference, difference
from tta_bench.report.runs import Runs

EVIL = "x<img src=x onerror=\"document.title='run'\"></script><script>document.title='run'</script>"
RERUN = {"by": "Grace H.", "date": "2026-11-10", "machine": "EPYC, Linux", "cells": 4, "result": "bit for bit"}
GONE = {"reason": "Tuned on scored tasks.", "date": "2026-11-12"}
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no chromium found: apt-get install chromium")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of four submissions and its site; `all` is a run with all their rows."""
    home = tmp_path_factory.mktemp("board")
    levels = {"tent": 0.62, "mine": 0.66, "older": 0.7, EVIL: 0.72}
    more = {
        "tent": {"package": "built-in", "paper": "https://example.org/tent"},
        "mine": {"reruns": [RERUN]},
        "older": {"retraction": GONE},
        EVIL: {"division": "open"},
    }
    for label, level in levels.items():
        name = label if label.isalnum() else "odd"
        run = make_run(home / "runs" / name, {"source": 0.5, label: level}, model="m" if name != "odd" else EVIL)
        add_submission(home / "board", name, run, **more[label])
    make_run(home / "all", {"source": 0.5, **levels})
    build(home / "board", home / "site", title=EVIL)
    return home


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def view(browser: Chromium, home: Path) -> Iterator[Chromium]:
    """The page of the suite; whatever a test does must end without an error or a request beyond the site."""
    browser.problems.clear()
    browser.requests.clear()
    browser.open(home / "site/suites/s.html")
    yield browser
    browser.run("localStorage.clear()")
    assert browser.problems == []
    assert all(url.startswith(((home / "site").as_uri(), "about:blank")) for url in browser.requests)
    assert browser.run("document.title") != "run"
    assert browser.run("document.querySelectorAll('img').length") == 0


def rows(view: Chromium, more: str = "") -> list[str]:
    found = f"[...document.querySelectorAll('table.board tbody tr{more}:not([hidden])')].map(e => e.dataset.name)"
    return list(view.run(found))


def expected(home: Path, a: str, b: str) -> Difference:
    """What `tta-bench compare` finds."""
    runs = Runs([home / "all"])
    return difference(comparison(runs.records), a, b, runs)


@needs_browser
def test_every_submission_has_its_row(view: Chromium) -> None:
    assert rows(view) == ["older", "mine", "tent", "source", EVIL]
    ranks = "[...document.querySelectorAll('.rank span')].map(e => e.textContent)"
    assert view.run(ranks) == ["–", "1", "2", "–", "1"]  # retracted and Source have none; the open division has its own
    closed = view.run("document.querySelector('table.board').innerText")
    assert "run again by Grace H." in closed
    assert "retracted" in closed
    assert GONE["reason"] in view.run("document.body.innerText")


def test_a_task_has_ranks_of_its_own() -> None:
    found = [(None, 80.0), ("closed", 70.0), ("closed", 70.0), ("closed", 60.0), ("open", 90.0)]
    assert ranks(found) == [None, 1, 1, 3, 1]
    assert ranks([(division, -math.inf) for division, _ in found]) == [None] * 5


@needs_browser
def test_columns_sort_and_words_filter(view: Chromium) -> None:
    assert rows(view)[:4] == ["older", "mine", "tent", "source"]
    view.click("table.board thead th:nth-child(3) button")
    view.key("Enter")
    assert rows(view)[:4] == ["source", "tent", "mine", "older"]
    assert view.run("document.querySelector('thead th:nth-child(3)').ariaSort") == "ascending"
    view.click("table.board thead th:nth-child(2) button")
    assert rows(view)[:4] == ["mine", "older", "source", "tent"]
    view.click("#filter")
    view.type("TTA-mine  older")
    assert rows(view) == ["older"]
    assert view.run("document.getElementById('shown').textContent") == "1 of 5 rows"
    view.type(" nothing")
    assert not view.run("document.getElementById('nothing').hidden")
    view.open(Path(view.run("decodeURI(location.pathname)")))
    view.click("#only-again")
    assert rows(view) == ["mine"]


@needs_browser
@pytest.mark.parametrize(("a", "b"), [("tent", "mine"), ("mine", "source")])
def test_differences_are_those_of_compare(view: Chromium, home: Path, a: str, b: str) -> None:
    view.open(home / "site/suites/s.html", height=400)
    for name in (a, b):
        view.click(f"tr[data-name={name}] .pick")
    view.wait("!document.getElementById('difference').hidden")
    found = view.run(
        "[...document.querySelectorAll('#difference-rows tr')].map(e => ({...e.dataset, text: e.innerText}))"
    )
    right = expected(home, a, b)
    assert [line["text"].split("\t")[0] for line in found] == ["Average", *TASKS]
    for line, one in zip(found, [right.overall, *(task.estimate for task in right.tasks)], strict=True):
        for name in ("difference", "low", "high"):
            assert float(line[name]) == pytest.approx(getattr(one, name), abs=1e-12), name
    for line, task in zip(found[1:], right.tasks, strict=True):
        assert float(line["holm"]) == pytest.approx(task.holm, rel=1e-9)
        assert line["text"].rstrip().endswith(task.verdict)
    view.run("scrollTo(0, 0)")
    view.wait("getComputedStyle(document.getElementById('see')).visibility == 'visible'")
    view.click("#see")
    assert view.run("document.activeElement.id") == "b"
    address = view.run("location.href")  # can be linked to
    view.send("Page.navigate", url="about:blank")
    view.send("Page.navigate", url=address)
    view.wait("document.getElementById('sentence')?.textContent.includes('points')")


@needs_browser
def test_costs_are_drawn_without_retracted_rows(view: Chromium) -> None:
    view.wait("document.querySelectorAll('#cost circle').length == 4")
    assert "older" not in view.run("document.querySelector('#cost desc').textContent")
    view.run("document.getElementById('cost-axis').value = 1")
    view.run("document.getElementById('cost-axis').dispatchEvent(new Event('change'))")
    assert "passes/image" in view.run("document.querySelector('#cost title').textContent")
    assert "ms" not in view.run("document.getElementById('cost-axis').innerText")  # no raw time


@needs_browser
def test_the_page_of_a_method(view: Chromium, home: Path) -> None:
    view.open(home / "site/methods/tta-mine--older.html")
    assert f"Retracted on 2026-11-12: {GONE['reason']}" in view.run("document.body.innerText")
    view.wait("document.querySelectorAll('.curve path.chosen').length == 1")
    assert view.run("document.querySelectorAll('.curve path.seed, .curve path.reference').length") == 3
    assert view.run("[...document.querySelectorAll('.curve-task option')].map(e => e.text)") == list(TASKS)
    link = view.run("document.querySelector('a[href$=\"run.zip\"]').href")
    assert Path(link.removeprefix("file://")).read_bytes() == (home / "board/older/run.zip").read_bytes()


@needs_browser
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_narrow_screens_and_both_colours(view: Chromium, home: Path, width: int) -> None:
    pages = (min((home / "site").glob(kind)) for kind in ("index.html", "suites/*", "tasks/*", "methods/*"))
    for page in pages:
        for dark in (False, True):
            view.open(page, width=width, height=740, dark=dark)
            assert view.run("document.documentElement.scrollWidth") <= width, page
            ground = re.findall(r"\d+", view.run("getComputedStyle(document.body).backgroundColor"))
            assert (sum(map(int, ground[:3])) < 300) == dark


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            assert not name.startswith("on")
            if name in ("href", "src"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")


def test_every_link_leads_somewhere(home: Path) -> None:
    pages = {path: Links(path.read_text()) for path in (home / "site").rglob("*.html")}
    for path, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), path
        for link in page.links:
            if link.startswith("https://example.org/"):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.is_file(), f"{path}: {link}"
            if anchor and "=" not in anchor:
                assert anchor in pages[target].ids, f"{path}: {link}"


def test_the_same_board_gives_the_same_bytes(home: Path, tmp_path: Path) -> None:
    build(home / "board", tmp_path / "site", title=EVIL)
    build(home / "board", tmp_path / "site", title=EVIL)  # replaces its own site
    names = {path.relative_to(tmp_path / "site") for path in (tmp_path / "site").rglob("*") if path.is_file()}
    assert names == {path.relative_to(home / "site") for path in (home / "site").rglob("*") if path.is_file()}
    assert all((tmp_path / "site" / name).read_bytes() == (home / "site" / name).read_bytes() for name in names)


def test_the_command_and_its_refusals(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "build", "--board", str(home / "board"), "--out", str(tmp_path / "site")]) == 0
    assert "4 submissions on 1 suite:" in capsys.readouterr().out
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("")
    with pytest.raises(UserError, match="holds other files"):
        build(home / "board", tmp_path / "mine")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no submissions"):
        build(tmp_path / "empty", tmp_path / "new")


def test_a_damaged_run_is_named(home: Path, tmp_path: Path) -> None:
    run = add_submission(tmp_path / "board", "bad", home / "runs/tent") / "run.zip"
    content = bytearray(run.read_bytes())
    content[len(content) // 2] ^= 1
    run.write_bytes(content)
    with pytest.raises(UserError, match="bad/run.zip: .*board check"):
        build(tmp_path / "board", tmp_path / "site")


def test_times_that_contradict_the_passes_are_not_shown(tmp_path: Path) -> None:
    rows = {"honest": ("source", "tent"), "beside-others": ("tent", "source")}  # the first row takes half the time
    found = {}
    for name, labels in rows.items():
        run = make_run(tmp_path / name, dict.fromkeys(labels, 0.6))
        (found[name],) = gather_runs([read_submission(add_submission(tmp_path / "board", name, run))])
    times = {name: [row.costs["× Source"].is_number for row in run.rows] for name, run in found.items()}
    assert times == {"honest": [True, True], "beside-others": [False, False]}
    assert all(row.costs["forwards/image"].is_number for row in found["beside-others"].rows)
    assert any("contradict" in str(note) for note in found["beside-others"].notes)
