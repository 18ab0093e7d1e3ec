"""Figures: the numbers behind them, that they read in grey and in print, and that they come out the same each time."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Cli
from tests.records import make_failure, make_record
from tta_bench.errors import UserError
from tta_bench.figures import attention, correlation, curve, kinds, pareto, rho, style, tsne
from tta_bench.inspection import Inspection
from tta_bench.record import Predictions, Record
from tta_bench.store import Store

pytest.importorskip("matplotlib")

ORDER = np.arange(100)
HALF = ORDER % 2 == 0  # every second image right


def save(store: Store, record: Record, correct: Any = HALF) -> None:
    """Keep a record of 100 images in ten batches, of which these are right."""
    zeros = np.zeros(100, np.float32)
    label = np.zeros(100, np.int64)
    store.save(record, Predictions(ORDER, label, np.where(correct, 0, 1), np.asarray(correct), zeros, zeros))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two tasks: source, and one that is better, dearer and was reset once."""
    store = Store.create(tmp_path / "run", "s")
    for task in ("fog", "snow"):
        save(store, make_record("source", 0.5, task=task, ms=1.0))
        better = make_record("better", 0.75, task=task, ms=3.0)
        save(store, replace(better, resets=1, reset_batches=[4], sample_forwards=200), ORDER >= 25)
    store.note_command(["tta-bench", "run"], ["fog", "snow"], ["source", "better"])
    return store.folder


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    store = Store.create(tmp_path / "sweep", "s")
    save(store, make_record("source", 0.5))
    for value, top1 in ((0.5, 0.6), (0.0, 0.8), (0.05, 0.7)):
        record = make_record("m", top1, settings={"predictor_rho": value, "lr": 0.1})
        save(store, replace(record, label=f"rho-{value:g}"))
    return store.folder


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """An inspection of two tasks whose shifts lie apart in the last block, and whose attention is known."""
    return inspection(tmp_path / "seen")


def inspection(folder: Path, **changes: Any) -> Path:
    rng = np.random.default_rng(0)
    task = np.repeat(["fog", "snow"], 20)
    shifts = rng.normal(size=(40, 8)).astype(np.float32)
    clean = rng.uniform(0.01, 0.05, (40, 4, 4)).astype(np.float32)
    arrays: dict[str, Any] = {
        "task": task,
        "label": np.zeros(40, np.int64),
        "prediction": np.zeros(40, np.int64),
        "shift_first": shifts,
        "shift_last": shifts + 30 * (task == "snow")[:, None].astype(np.float32),
        "correlation_first": np.zeros((40, 4, 4), np.float32),
        "correlation_last": rng.uniform(-1, 1, (40, 4, 4)).astype(np.float32),
        "attention_clean": clean,
        "attention_corrupted": 0.06 - clean,
        "attention_adapted": 2 * clean,
        "shown": np.array([19, 39]),
        "image": rng.integers(0, 255, (2, 3, 32, 32), np.uint8),
        "original": rng.integers(0, 255, (2, 3, 32, 32), np.uint8),
    }
    Inspection({"method": "mine"}, **{**arrays, **changes}).save(folder)
    return folder


@pytest.fixture
def folder_of(run: Path, sweep: Path, seen: Path) -> dict[str, Path]:
    return {"curve": run, "pareto": run, "rho": sweep, "tsne": seen, "attention": seen, "correlation": seen}


# The numbers


def test_curve_is_the_accuracy_of_all_images_so_far(run: Path) -> None:
    panels = curve.data(run).panels
    assert [panel.title for panel in panels] == ["fog", "snow"]
    source, better = panels[0].lines
    np.testing.assert_array_equal(source.images, range(10, 101, 10))
    np.testing.assert_allclose(source.accuracy, 50)
    np.testing.assert_allclose(better.accuracy[[0, 1, 2, 9]], [0, 0, 100 * 5 / 30, 75])
    assert (source.resets, better.resets) == ((), (50,)), "after the fifth batch of ten"


def test_curve_averages_seeds_and_marks_the_resets_of_all(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    for seed, correct, batch in ((0, ORDER < 50, 2), (1, ORDER >= 50, 7)):
        save(store, replace(make_record("m", 0.5, seed=seed), resets=1, reset_batches=[batch]), correct)
    (line,) = curve.data(store.folder).panels[0].lines
    np.testing.assert_allclose(line.accuracy[[0, 4, 9]], [50, 50, 50])
    np.testing.assert_allclose(line.spread[[0, 9]], [100 / np.sqrt(2), 0], atol=1e-9)
    assert line.resets == (30, 80)


def test_curve_says_what_it_lacks(run: Path) -> None:
    store = Store(run)
    store.save(make_failure("broken", "no luck", task="fog"), None)
    save(store, replace(make_record("old", 0.5, task="fog"), resets=3))
    found = curve.data(run, tasks=["fog"])
    assert [line.label for line in found.panels[0].lines] == ["source", "better", "old"]
    assert "Left out: broken, not done on fog" in found.notes
    assert any("did not note when" in note for note in found.notes)


def test_the_last_batch_may_be_short() -> None:
    record = replace(make_record("m", batch_size=32), samples=100)
    np.testing.assert_array_equal(curve.batch_ends(record), [32, 64, 96, 100])


def test_pareto_weighs_accuracy_against_passes_or_time(run: Path) -> None:
    source, better = pareto.data(run).points
    assert (source.cost, better.cost) == (1.5, 2.5), "forwards and backwards per image"
    assert (source.accuracy, better.accuracy) == (50, 75)
    assert [point.cost for point in pareto.data(run, "time").points] == pytest.approx([1, 3])
    assert [point.cost for point in pareto.data(run, "time", ["better"]).points] == pytest.approx([3])


def test_pareto_leaves_out_rows_that_are_not_whole(run: Path) -> None:
    save(Store(run), make_record("half", 0.99, task="fog"))
    found = pareto.data(run)
    assert [point.label for point in found.points] == ["source", "better"]
    assert "Left out: half, not all of its tasks are done" in found.notes


def test_the_frontier_holds_what_nothing_beats() -> None:
    def point(label: str, cost: float, accuracy: float) -> pareto.Point:
        return pareto.Point(label, 0, cost, accuracy, 0)

    points = point("a", 1, 50), point("b", 3, 60), point("worse", 2, 40), point("same", 4, 60), point("c", 9, 61)
    frontier = pareto.Pareto(points, "passes", "", ()).frontier
    assert [p.label for p in frontier] == ["a", "b", "c"]


def test_rho_is_sorted_and_keeps_the_row_without_the_setting_apart(sweep: Path) -> None:
    found = rho.data(sweep)
    assert found.values == (0.0, 0.05, 0.5)
    assert found.accuracy == pytest.approx((80, 70, 60))
    assert found.base == ("source", 50)


def test_rho_refuses_what_is_no_fair_sweep(sweep: Path, run: Path) -> None:
    with pytest.raises(UserError, match="at least two values of 'predictor_rho', found 0"):
        rho.data(run)
    save(Store(sweep), make_record("m", 0.9, settings={"predictor_rho": 1.0, "lr": 0.2}))
    with pytest.raises(UserError, match="differ in lr too"):
        rho.data(sweep)


def test_a_limit_shows_on_the_axis(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    save(store, make_record("m", limit=100))
    with style.house_style():
        found, figure = kinds.make("pareto", store.folder, {})
    assert "first 100 images" in figure.axes[0].get_ylabel()
    assert any("NOT REPORTABLE" in note for note in found.notes)


def test_tsne_keeps_tasks_apart_that_lie_apart(seen: Path) -> None:
    found = tsne.data(seen)
    gap = found.last[found.task == "fog"].mean(0) - found.last[found.task == "snow"].mean(0)
    assert np.linalg.norm(gap) > 3 * found.last[found.task == "fog"].std()
    assert set(tsne.data(seen, ["snow"]).task) == {"snow"}


def test_tsne_needs_something_to_tell_apart(tmp_path: Path) -> None:
    same = inspection(tmp_path / "same", shift_last=np.ones((40, 8), np.float32))
    with pytest.raises(UserError, match="last block are the same for all images"):
        tsne.data(same)


def test_attention_is_compared_with_that_of_the_original(seen: Path) -> None:
    found = attention.data(seen)
    assert found.likeness == pytest.approx({"corrupted": -1, "adapted": 1}, abs=1e-4)
    fog, snow = found.examples
    assert (fog.task, snow.task) == ("fog", "snow")
    kept = Inspection.open(seen)
    np.testing.assert_array_equal(snow.image, kept.image[1])
    for kind, shares in snow.maps.items():
        assert shares.sum() == pytest.approx(1, abs=1e-5)
        raw = getattr(kept, f"attention_{kind}")[39]
        np.testing.assert_allclose(shares, raw / raw.sum(), rtol=1e-5)


def test_attention_does_without_originals(tmp_path: Path) -> None:
    nothing = {"attention_clean": np.zeros((0, 4, 4), np.float32), "original": np.zeros((0, 3, 32, 32), np.uint8)}
    folder = inspection(tmp_path / "no-originals", **nothing)
    with style.house_style():
        found, figure = kinds.make("attention", folder, {})
    assert found.likeness == {}
    assert len(figure.axes) == 2 * 3, "image, before, after"
    assert correlation.data(folder).examples[0].original is None


def test_correlation_shows_the_block_asked_for(seen: Path) -> None:
    np.testing.assert_array_equal(correlation.data(seen).examples[1].map, Inspection.open(seen).correlation_last[39])
    assert not correlation.data(seen, "first").examples[1].map.any()


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
    (["run", "tsne"], "is no inspection"),
    (["seen", "curve"], "is an inspection, and this figure needs a run's folder"),
    (["nowhere", "curve"], "is no run folder"),
    (["nowhere", "tsne"], "is no inspection"),
    (["run", "pie"], "invalid choice"),
    (["run", "curve", "--cost", "time"], "--cost means nothing to 'curve' (which knows --tasks, --methods, --where)"),
    (["run", "curve", "--tasks", "fgo"], "no stream 'fgo'; did you mean 'fog'"),
    (["seen", "attention", "--tasks", "fgo"], "no task 'fgo'; did you mean 'fog'"),
    (["run", "pareto", "--methods", "bettr"], "no row 'bettr'; did you mean 'better'"),
    (["run", "curve", "--format", "gif"], "unknown format 'gif'"),
    (["run", "rho", "--setting", "lr"], "at least two values of 'lr', found 0"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_mistake_is_one_line(
    cli: Cli, words: list[str], said: str, run: Path, seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, shown, err = cli("figure", *words)
    assert (status, said in err, err.count("\n"), shown) == (2, True, 1, ""), err
    assert not list(tmp_path.rglob("figures"))


def test_a_method_without_shifts_has_no_tsne(cli: Cli, tmp_path: Path) -> None:
    nothing = np.zeros((0, 8), np.float32)
    maps = np.zeros((0, 4, 4), np.float32)
    folder = inspection(
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
        assert record.resets == len(record.reset_batches) > 0
    lines = [line for panel in curve.data(out).panels for line in panel.lines]
    assert all(set(line.resets) <= {32, 64, 96} and line.resets for line in lines)
