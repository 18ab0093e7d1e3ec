"""Figures work in grey and in print, are the same each time, and `tta-bench figure` says what is wrong."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.figures.test_sweep_suites import make_speeds
from tests.support.cli import Cli
from tests.support.folders import make_inspection
from tests.support.works import run_folder
from tta_bench.figures import curve, kinds, style
from tta_bench.records.store import Store

pytest.importorskip("matplotlib")


@pytest.fixture
def folder_of(
    request: pytest.FixtureRequest, run: Path, sweep_folder: Path, seen: Path, small_suite: Path, tmp_path: Path
) -> dict[str, Path]:
    """A folder for each kind of figure; a stream is run only for a test that draws it."""
    of_run = dict.fromkeys(("curve", "pareto", "reliability", "risk", "confusion"), run)
    of_inspection = dict.fromkeys(("tsne", "attention", "correlation"), seen)
    streams = {"visits": "continual+recurring:3", "forgetting": "forgetting"}
    drawn = request.node.callspec.params.values() if hasattr(request.node, "callspec") else streams
    of_streams = {
        kind: run_folder(tmp_path / "streams" / kind, small_suite, methods=("source",), scenario=scenario)
        for kind, scenario in streams.items()
        if kind in drawn
    }
    speeds = make_speeds(tmp_path / "speeds")
    return {**of_run, **of_inspection, **of_streams, "sweep": sweep_folder, "speed": speeds}


# The looks


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_the_same_data_give_the_same_bytes_in_every_format(
    kind: str, folder_of: dict[str, Path], tmp_path: Path
) -> None:
    def draw(name: str) -> list[bytes]:
        with style.house_style():
            _, figure = kinds.make(kind, folder_of[kind], {})
            return [file.read_bytes() for file in style.save(figure, tmp_path / name, style.FORMATS)]

    once = draw("once")
    assert draw("again") == once
    png, svg, pdf = once
    assert (png[:8], pdf[:5]) == (b"\x89PNG\r\n\x1a\n", b"%PDF-")
    ET.fromstring(svg.decode())
    assert b"<dc:date>" not in svg


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_no_text_is_smaller_than_8_points_or_off_the_page(kind: str, folder_of: dict[str, Path]) -> None:
    from matplotlib.text import Text

    with style.house_style():
        _, figure = kinds.make(kind, folder_of[kind], {})
        figure.canvas.draw()
        texts: Sequence[Any] = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text()]
        assert texts
        assert min(text.get_fontsize() for text in texts) >= 8
        page = figure.bbox
        for axes in figure.axes:
            for label in (axes.title, axes.xaxis.label, axes.yaxis.label):
                box = label.get_window_extent()
                inside = page.x0 <= box.x0 + 1 and box.x1 <= page.x1 + 1 and box.y1 <= page.y1 + 1
                assert inside or not label.get_text(), label.get_text()
    assert figure.get_figwidth() <= style.PAGE


def test_rows_differ_in_more_than_colour() -> None:
    looks = [style.look(number) for number in range(12)]
    assert len({look.marker for look in looks}) == 12
    assert all(a.linestyle != b.linestyle for a, b in pairwise(looks))


def test_names_beside_points_do_not_cover_each_other() -> None:
    from matplotlib.text import Annotation

    with style.house_style():
        figure = style.new_figure(style.COLUMN, 2.5)
        axes = figure.subplots()
        points = [(1.0, 50.0, "source"), (1.0, 50.1, "tent"), (1.02, 50.0, "eata"), (2.0, 60.0, "dpal")]
        axes.plot([p[0] for p in points], [p[1] for p in points], "o")
        style.label_points(axes, points)
        figure.canvas.draw()
        boxes = [text.get_window_extent() for text in axes.findobj(Annotation)]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


# The command line


def test_figure_writes_what_is_asked_for(cli: Cli, run: Path, tmp_path: Path) -> None:
    assert cli("figure", run, "curve")[0] == 0
    assert {path.name for path in (run / "figures").iterdir()} == {"curve.png", "curve.svg"}
    cli("figure", run, "pareto", "--out", tmp_path / "a.pdf")
    cli("figure", run, "pareto", "--out", tmp_path / "v1.2", "--format", "svg")
    assert {path.name for path in tmp_path.glob("*.*")} == {"a.pdf", "v1.2.svg"}


BAD = [
    (["run", "tsne"], "is not an inspection"),
    (["seen", "curve"], "is an inspection, and this figure needs a run's folder"),
    (["nowhere", "curve"], "is not a run folder"),
    (["nowhere", "tsne"], "is not an inspection"),
    (["run", "pie"], "invalid choice"),
    (["run", "curve", "--cost", "time"], "figure curve has no option --cost (it takes --tasks, --methods, --where)"),
    (["run", "curve", "--tasks", "fgo"], "no stream 'fgo'; did you mean 'fog'"),
    (["seen", "attention", "--tasks", "fgo"], "no task 'fgo'; did you mean 'fog'"),
    (["run", "pareto", "--methods", "bettr"], "no row 'bettr'; did you mean 'better'"),
    (["run", "curve", "--format", "gif"], "unknown format 'gif'"),
    (["run", "curve", "--out", "x.gif"], "a figure is written as one of png, svg, pdf, got .gif"),
    (["run", "sweep", "--setting", "lr"], "at least two values of 'lr', found 0"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_mistake_is_one_line(cli: Cli, words: list[str], said: str, run: Path, seen: Path, tmp_path: Path) -> None:
    status, shown, err = cli("figure", *words)
    assert (status, said in err, err.count("\n"), shown) == (2, True, 1, ""), err
    assert not list(tmp_path.rglob("figures"))


def test_a_method_without_shifts_has_no_tsne(cli: Cli, tmp_path: Path) -> None:
    nothing = np.zeros((0, 8), np.float32)
    maps = np.zeros((0, 4, 4), np.float32)
    folder = make_inspection(
        tmp_path / "plain", shift_first=nothing, shift_last=nothing, correlation_first=maps, correlation_last=maps
    )
    for kind in ("tsne", "correlation"):
        status, _, err = cli("figure", folder, kind)
        assert (status, "method 'mine' predicts no shift features" in err, err.count("\n")) == (2, True, 1)
    assert cli("figure", folder, "attention", "--format", "png")[0] == 0


def test_without_matplotlib_one_line_says_how_to_get_it(cli: Cli, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = cli("figure", run, "curve")
    assert (status, err) == (2, "tta-bench: error: figures need matplotlib: pip install 'tta-bench[figures]'\n")


def test_no_figure_imports_torch(folder_of: dict[str, Path], tmp_path: Path) -> None:
    commands = [["figure", str(folder), kind, "--out", str(tmp_path / kind)] for kind, folder in folder_of.items()]
    code = (
        "import sys; from tta_bench.cli.main import main\n"
        f"assert not any(main(words) for words in {commands!r})\n"
        "assert 'torch' not in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_run_notes_after_which_batches_a_method_was_reset(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("run", "--suite", small_suite, "--limit", 96, "--out", out, "--methods", "sar")
    assert cli(*command, "--set", "sar.reset_threshold=10")[0] == 0  # an entropy that is always below
    for record in Store.open(out).records():
        assert record.measured.resets == len(record.measured.reset_batches) > 0
    lines = [line for panel in curve.data(out).panels for line in panel.lines]
    assert all(set(line.resets) <= {32, 64, 96} and line.resets for line in lines)
