"""Suites that sweep speed, batch size, length or severity: their cells, tables and figures."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.support.folders import HALF, ORDER, save
from tests.support.records import make_record
from tests.support.works import requests
from tta_bench.errors import UserError
from tta_bench.figures import kinds
from tta_bench.figures import lines as charts
from tta_bench.records.live import Live
from tta_bench.records.store import Store
from tta_bench.report import sweep
from tta_bench.report.choose import comparison
from tta_bench.runs.options import RunOptions
from tta_bench.runs.spec import specs
from tta_bench.suites import suite

SWEPT = """
name: swept
about: A sweep.
data: {kind: digits-c, severity: 5}
tasks: [contrast]
model: digits-vit
batch_size: 32
methods: {source: {}, tent: {}}
sweep: {SWEEP}
"""


def swept(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "swept.yaml"
    file.write_text(SWEPT.replace("SWEEP", text))
    return file


@pytest.mark.parametrize(
    ("axis", "values", "read"),
    [
        ("stream_speed", [0, 0.5, 2], lambda spec: spec.live.speed if spec.live else 0),
        ("batch_size", [1, 64], lambda spec: spec.batch_size),
        ("limit", [64, 128], lambda spec: spec.limit),
        ("severity", [1, 3], lambda spec: spec.data["severity"]),
    ],
)
def test_a_sweep_runs_the_suite_at_each_value(tmp_path: Path, axis: str, values: list[float], read: object) -> None:
    found = requests(swept(tmp_path, f"{axis}: {values}"))
    assert [read(spec) for spec in found] == [value for value in values for _ in range(2)]  # type: ignore[operator]
    assert len({spec.digest for spec in found}) == len(found)


def test_an_option_of_the_command_line_is_the_only_value(tmp_path: Path) -> None:
    file = swept(tmp_path, "stream_speed: [0, 1, 2]")
    assert {spec.live for spec in requests(file, stream_speed=3)} == {Live(3)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed: [1, 2]", "unknown axis 'speed'"),
        ("stream_speed: [1]", "expected at least two different values"),
        ("stream_speed: [-1, 1]", "expected a number of at least 0, got -1"),
        ("batch_size: [0, 1]", "expected a whole number of at least 1, got 0"),
        ("limit: [1.5, 2]", "expected a whole number of at least 1, got 1.5"),
        ("dirichlet: [0, 1]", "dirichlet: expected a number above 0, got 0"),
        ("recurring: [0, 2]", "recurring: expected a whole number of at least 1, got 0"),
        ("limit: [1, 2], severity: [1, 2]", "expected one axis"),
    ],
)
def test_a_bad_sweep_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        suite.load(str(swept(tmp_path, text)))


def test_the_packaged_sweeps_have_cells() -> None:
    for name, count in (("digits-speed", 4), ("digits-batch-size", 8), ("digits-length", 5), ("digits-severity", 5)):
        assert len(specs(suite.load(name), RunOptions(tasks=("fog",)))) == 6 * count


def test_a_stream_that_waits_can_be_asked_for() -> None:
    assert len(specs(suite.load("digits-speed"), RunOptions(tasks=("fog",), stream_speed=0))) == 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_speeds(tmp_path / "run")


def make_speeds(folder: Path) -> Path:
    """Source and a method that is better where the stream waits, and worse where it is fast."""
    store = Store.create(folder, "s")
    for live, right in ((None, ORDER >= 20), (Live(0.5), ORDER >= 30), (Live(2), ORDER >= 60)):
        save(store, make_record("source", 0.5, live=live), HALF)
        save(store, make_record("tent", 0.5, live=live), right)
    return store.folder


def test_the_table_of_a_sweep(folder: Path) -> None:
    records = Store.open(folder).records()
    assert sweep.varying(records) == ["stream_speed"]
    table = sweep.table(sweep.points(records, "stream_speed"), "stream_speed")
    assert table.columns[:3] == ("waits", "0.5", "2")
    rows = {label: [value.mean for value in values[:3]] for label, values in table.rows}
    assert rows == {"source": [50, 50, 50], "tent": [80, 70, 40]}
    best = {label: [value.best for value in values[:3]] for label, values in table.rows}
    assert best == {"source": [False, False, True], "tent": [True, True, False]}


def test_a_report_shows_one_speed_and_names_the_others(folder: Path) -> None:
    records = Store.open(folder).records()
    found = comparison(records, [("stream_speed", "2")])
    assert {record.cell.spec.live for record in found.records} == {Live(2)}
    assert any("stream_speed=" in note for note in map(str, comparison(records).notes))


@pytest.mark.parametrize("kind", ["speed", "sweep", "reliability", "risk"])
def test_the_figures_are_drawn(folder: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    from tta_bench.figures import style

    where = {} if kind in ("speed", "sweep") else {"where": [("stream_speed", "2")]}
    with style.house_style():
        found, figure = kinds.make(kind, folder, where)
    assert figure.axes
    if kind == "speed":
        assert [line.accuracy for line in found.lines] == [(50, 50, 50), (80, 70, 40)]


def test_many_rows_are_named_at_the_ends_of_their_lines() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.text import Annotation, Text

    from tta_bench.figures import style

    lines = [charts.ChartLine(f"row{n}", n, (60 + n % 3, 60.0), (0, 0), (100, 50)) for n in range(19)]
    with style.house_style():
        figure = charts.draw(charts.Chart("stream speed", ("waits", "1"), tuple(lines), True, ()))
        figure.canvas.draw()
        names = [text for text in figure.axes[0].texts if isinstance(text, Annotation)]
        assert {text.get_text() for text in names} == {line.label for line in lines}
        assert not figure.legends
        boxes = sorted((Text.get_window_extent(text) for text in names), key=lambda box: box.y0)  # without its line
    assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))
    frame = figure.axes[0].get_window_extent()
    assert all(frame.y0 - 10 <= box.y0 and box.y1 <= frame.y1 + 10 and box.x1 <= figure.bbox.x1 for box in boxes)


def test_many_rows_of_visits_have_no_legend() -> None:
    pytest.importorskip("matplotlib")
    from tta_bench.figures import style, visits

    def drawn(rows: int) -> style.Figure:
        lines = [visits.VisitLine(f"row{n}", n, np.array([20.0 + n, 20.0]), np.zeros(2)) for n in range(rows)]
        with style.house_style():
            return visits.draw(visits.Visits(tuple(lines), "visit", "error (%)", ()))

    assert drawn(3).legends
    assert not drawn(3).axes[0].texts
    assert {text.get_text() for text in drawn(25).axes[0].texts} == {f"row{n}" for n in range(25)}
    assert not drawn(25).legends


def test_places_are_apart_and_near() -> None:
    from tta_bench.figures import many

    assert many.apart([5.0, 1.0, 1.0, 9.0], 1.0, 0.0, 9.0) == [5.0, 0.5, 1.5, 9.0]
    assert many.apart([0.0, 0.0, 0.0], 1.0, 0.0, 9.0) == [0.0, 1.0, 2.0]
    assert many.apart([9.0, 9.0], 1.0, 0.0, 9.0) == [8.0, 9.0]
    assert many.apart([], 1.0, 0.0, 9.0) == []


def test_a_figure_needs_two_values(run: Path) -> None:
    with pytest.raises(UserError, match="needs records of at least two values of stream_speed, found 1"):
        charts.data(run, "stream_speed")


def test_severities_of_one_suite_make_several_tables(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    for level in (1, 5):
        data = {"kind": "digits-c", "severity": level}
        save(store, make_record("source", 0.5, data=data, images=f"i{level}", stream=f"o{level}"), HALF)
    records = store.records()
    assert sweep.varying(records) == ["severity"]
    assert [point.name for point in sweep.points(records, "severity")] == ["1", "5"]
    assert any("severity=" in note for note in map(str, comparison(records).notes))
