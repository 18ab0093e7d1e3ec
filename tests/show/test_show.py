"""`tta-bench show`: the right images in the right groups, from data that is the record's."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.checkout import ROOT
from tests.support.chromium import PROGRAM, Chromium, chromium
from tests.support.cli import Cli
from tta_bench.datasets import open_dataset
from tta_bench.report.choose import comparison
from tta_bench.report.runs import Runs
from tta_bench.show import page as pages
from tta_bench.show.cards import classes, groups, pair
from tta_bench.streams import again
from tta_bench.streams.again import stream_again

RUN = ROOT / "results" / "board" / "tent-digits-c-5" / "run.zip"
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no chromium found: apt-get install chromium")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    runs = Runs([RUN])
    found = pair(comparison(runs.records), runs, "source", "tent", "contrast", None)
    return pages.page(found, stream_again(found.record.cell, None), most=12)


def test_groups_are_what_their_names_say() -> None:
    runs = Runs([RUN])
    found = pair(comparison(runs.records), runs, "source", "tent", "contrast", 1)
    to_right, to_wrong, sure = groups(found)
    a, b = found.first, found.second

    assert found.record.cell.spec.seed == 1
    assert (b.correct & ~a.correct)[to_right.places].all()
    assert (a.correct & ~b.correct)[to_wrong.places].all()
    assert len(to_right.places) - len(to_wrong.places) == b.correct.sum() - a.correct.sum()
    assert not b.correct[sure.places].any()
    assert (np.diff(b.confidence[sure.places]) <= 0).all()
    lines = classes(found)
    assert sum(line.images for line in lines) == len(a)
    assert sum(line.to_right for line in lines) == len(to_right.places)
    assert sum(line.b_right for line in lines) == b.correct.sum()


def test_a_thumbnail_is_the_image_that_was_answered(text: str) -> None:
    card = re.search(
        r'<li data-class="(\d+)".*?src="data:image/png;base64,([^"]+)".*?name">digits/(\d+) ', text, re.DOTALL
    )
    assert card is not None
    label, picture, name = card.groups()
    images = open_dataset({"kind": "digits-c", "severity": 5}, ["contrast"], None).open("contrast")
    index = list(images.ids).index(f"digits/{name}")
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture))))

    assert np.array_equal(pixels.transpose(2, 0, 1), images.read(np.array([index]))[0])
    assert images.labels[index] == int(label)


def test_a_large_image_becomes_a_thumbnail() -> None:
    kind, _, picture = pages.picture(np.zeros((3, 224, 300), np.uint8)).partition(";base64,")
    assert kind == "data:image/jpeg"
    assert max(Image.open(io.BytesIO(base64.b64decode(picture))).size) == pages.LARGE


def test_other_images_are_refused_and_other_pixels_are_said(
    monkeypatch: pytest.MonkeyPatch, cli: Cli, tmp_path: Path
) -> None:
    words = ("show", RUN, "--a", "source", "--b", "tent", "--task", "fog", "--out", tmp_path / "page.html")
    monkeypatch.setattr(again, "fingerprint", lambda images: "other")
    status, said, _ = cli(*words)
    assert status == 0
    assert "WARNING the pixels on this machine differ" in said
    assert "The pixels on this machine differ" in (tmp_path / "page.html").read_text()

    monkeypatch.setattr(again, "make_stream", lambda *given: again.Stream((), None, np.array([]), "none"))  # type: ignore[arg-type]
    status, _, said = cli(*words)
    assert status == 2
    assert "are not those of" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--a", "source", "--b", "source", "--task", "fog"), "--a and --b are both 'source'"),
        (("--a", "source", "--b", "tnet", "--task", "fog"), "no row 'tnet'"),
        (("--a", "source", "--b", "tent", "--task", "fgo"), "no task 'fgo' in digits-c-5; did you mean 'fog'"),
        (("--a", "source", "--b", "tent", "--task", "fog", "--seed", "9"), "with seed 9 (both have: 0, 1, 2)"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], says: str, cli: Cli, tmp_path: Path) -> None:
    status, _, error = cli("show", RUN, *words, "--out", tmp_path / "page.html")
    assert status == 2
    assert says in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


@pytest.fixture
def view(text: str, tmp_path: Path) -> Iterator[Chromium]:
    path = tmp_path / "page.html"
    path.write_text(text)
    with chromium(tmp_path / "profile") as browser:
        browser.open(path)
        yield browser
        assert browser.problems == []
        assert {address for address in browser.requests if not address.startswith("data:")} == {path.as_uri()}


@needs_browser
def test_classes_filter_and_keys_move(view: Chromium, tmp_path: Path) -> None:
    cards = "[...document.querySelectorAll('.cards li')]"
    focus = f"{cards}.indexOf(document.activeElement)"
    assert view.run(f"{cards}.every(card => card.querySelector('img').complete)")
    view.run(f"{cards}[0].focus()")
    view.key("ArrowRight")
    assert view.run(focus) == 1
    view.key("ArrowDown")
    below = view.run(focus)
    tops = view.run(f"{cards}.map(card => card.getBoundingClientRect().top)")
    assert tops[below] > tops[1]
    view.key("Enter")
    assert view.run(f"{cards}[{below}].className") == "large"

    label = view.run(f"{cards}[0].dataset.class")
    choose = "c => { c.value = " + json.dumps(label) + "; c.dispatchEvent(new Event('change')); }"
    view.run(f"({choose})(document.getElementById('class'))")
    shown = view.run(f"{cards}.filter(card => card.offsetParent).map(card => card.dataset.class)")
    assert set(shown) == {label}
    total = view.run(f"{cards}.length")
    assert view.run("document.getElementById('shown').textContent") == f"{len(shown)} of {total} images"

    view.open(tmp_path / "page.html", width=400, dark=True)
    assert view.run("document.documentElement.scrollWidth") <= 400
