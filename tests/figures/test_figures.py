"""The numbers behind figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.folders import ORDER, make_inspection, save
from tests.support.records import changed, make_failure, make_record
from tta_bench.errors import UserError
from tta_bench.figures import attention, correlation, curve, kinds, pareto, rows, style, sweep, tsne
from tta_bench.inspect.inspection import Inspection
from tta_bench.records.store import Store
from tta_bench.suites import suite as suites

pytest.importorskip("matplotlib")


def test_curve_is_the_accuracy_of_all_images_so_far(run: Path) -> None:
    panels = curve.data(run).panels
    assert [panel.title for panel in panels] == ["fog", "snow"]
    source, better = panels[0].lines
    np.testing.assert_array_equal(source.images, range(10, 101, 10))
    np.testing.assert_allclose(source.accuracy, 50)
    np.testing.assert_allclose(better.accuracy[[0, 1, 2, 9]], [0, 0, 100 * 5 / 30, 75])
    assert (source.resets, better.resets) == ((), (50,)), "after the fifth batch of ten"


@pytest.mark.filterwarnings("error")
def test_control_characters_in_a_label_are_not_drawn(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    save(store, changed(make_record("m", 0.5), label="m\x1b[31m\nx"), ORDER < 50)
    with style.house_style():
        found, figure = kinds.make("curve", store.folder, {})
        style.save(figure, tmp_path / "curve", ("png",))
    assert [line.label for line in found.panels[0].lines] == ["m\ufffd[31m x"]


def test_curve_averages_seeds_and_marks_the_resets_of_all(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    for seed, correct, batch in ((0, ORDER < 50, 2), (1, ORDER >= 50, 7)):
        save(store, changed(make_record("m", 0.5, seed=seed), resets=1, reset_batches=[batch]), correct)
    (line,) = curve.data(store.folder).panels[0].lines
    np.testing.assert_allclose(line.accuracy[[0, 4, 9]], [50, 50, 50])
    np.testing.assert_allclose(line.spread[[0, 9]], [100 / np.sqrt(2), 0], atol=1e-9)
    assert line.resets == (30, 80)


def test_curve_notes_what_is_missing(run: Path) -> None:
    store = Store(run)
    store.save(make_failure("broken", "no luck", task="fog"), None)
    save(store, changed(make_record("old", 0.5, task="fog"), resets=3))
    found = curve.data(run, tasks=["fog"])
    assert [line.label for line in found.panels[0].lines] == ["source", "better", "old"]
    assert "Left out: broken, not done on fog" in found.notes
    assert any("did not record resets" in note for note in found.notes)


def test_a_curve_leaves_out_streams_on_which_nothing_is_done(run: Path) -> None:
    save(Store(run), make_record("half", task="fog"))
    Store(run).save(make_failure("half", "no luck", task="snow"), None)
    with style.house_style():
        found, figure = kinds.make("curve", run, {"methods": ["half"]})
    assert [panel.title for panel in found.panels] == ["fog"]
    assert len(figure.axes) == 1


def test_the_last_batch_may_be_short() -> None:
    record = changed(make_record("m", batch_size=32), samples=100, batch_seconds=[0.1] * 4)
    np.testing.assert_array_equal(curve.batch_ends(record), [32, 64, 96, 100])


def test_pareto_weighs_accuracy_against_passes_or_time(run: Path) -> None:
    source, better = pareto.data(run).points
    assert (source.cost, better.cost) == (1.5, 2.5), "forwards and backwards per image"
    assert (source.accuracy, better.accuracy) == (50, 75)
    assert [point.cost for point in pareto.data(run, "time").points] == pytest.approx([1, 3])
    assert [point.cost for point in pareto.data(run, "time", ["better"]).points] == pytest.approx([3])


def test_pareto_notes_times_from_several_machines(run: Path) -> None:
    other = {"device_name": "chip", "threads": 2, "packages": {"torch": "2.16.0"}}
    for task in ("fog", "snow"):
        save(Store(run), changed(make_record("later", 0.6, task=task), environment=other))
    note = "Times were measured under different conditions: chip, 2 threads, torch 2.16.0 and "
    note += "chip, 2 threads, torch unknown; --cost passes does not depend on them"
    assert note in pareto.data(run, "time", ["later"]).notes, "the Source that it is compared with counts, too"
    assert pareto.data(run, "passes").notes == pareto.data(run, "time", ["better"]).notes == ()


def test_pareto_compares_on_the_tasks_that_all_rows_have(run: Path) -> None:
    save(Store(run), make_record("half", 0.99, task="fog"))
    found = pareto.data(run)
    assert [point.label for point in found.points] == ["source", "better", "half"]
    assert "Only the 1 of 2 tasks that all rows have done: fog" in found.notes
    fog = [record for record in rows.read(run).rows[1].records if record.cell.spec.tasks == ("fog",)]
    assert found.points[1].accuracy == pytest.approx(100 * fog[0].scores.top1)


def test_pareto_leaves_out_rows_of_which_nothing_is_done(run: Path) -> None:
    Store(run).save(make_failure("broken", "no luck", task="fog"), None)
    found = pareto.data(run)
    assert [point.label for point in found.points] == ["source", "better"]
    assert "Left out: broken, not all of its tasks are done" in found.notes


def test_the_frontier_holds_what_nothing_beats() -> None:
    def point(label: str, cost: float, accuracy: float) -> pareto.CostPoint:
        return pareto.CostPoint(label, 0, cost, accuracy, 0)

    points = point("a", 1, 50), point("b", 3, 60), point("worse", 2, 40), point("same", 4, 60), point("c", 9, 61)
    frontier = pareto.Pareto(points, "passes", "", ()).frontier
    assert [p.label for p in frontier] == ["a", "b", "c"]


def test_a_sweep_finds_its_setting_is_sorted_and_keeps_the_row_without_it_apart(sweep_folder: Path) -> None:
    found = sweep.data(sweep_folder)
    assert (found.setting, found.axis) == ("predictor_rho", "predictor_rho")
    assert found.values == (0.0, 0.05, 0.5)
    assert found.accuracy == pytest.approx((80, 70, 60))
    assert found.base == ("source", 50)


def test_a_sweep_of_some_rows(sweep_folder: Path) -> None:
    assert sweep.data(sweep_folder, methods=("rho-0", "rho-0.5")).values == (0.0, 0.5)
    with pytest.raises(UserError, match="no row 'rho-2'"):
        sweep.data(sweep_folder, methods=("rho-2",))


def test_a_sweep_that_is_not_fair_is_refused(sweep_folder: Path, run: Path) -> None:
    with pytest.raises(UserError, match="no two rows of a method differ in a setting: choose a setting with --setting"):
        sweep.data(run)
    with pytest.raises(UserError, match="at least two values of 'predictor_rho', found 0"):
        sweep.data(run, "predictor_rho")
    save(Store(sweep_folder), make_record("m", 0.9, settings={"predictor_rho": 1.0, "lr": 0.2}))
    with pytest.raises(UserError, match="rows differ in lr, predictor_rho: choose a setting"):
        sweep.data(sweep_folder)
    with pytest.raises(UserError, match="differ in lr too"):
        sweep.data(sweep_folder, "predictor_rho")


def test_the_paper_of_a_suite_names_the_axis(tmp_path: Path) -> None:
    suite = suites.load("digit-pairs-ablation-rho")
    store = Store.create(tmp_path / "run", suite.name)
    for label in ("rho-0", "rho-0.5"):
        settings = {key: value for key, value in suite.methods[label].items() if key != "method"}
        record = make_record("dpal", task="speckle_noise", suite=suite.name, data=suite.data, settings=settings)
        save(store, changed(record, label=label))
    assert sweep.data(tmp_path / "run").axis == "ρ of the prediction networks"


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


def test_tsne_needs_shifts_that_differ(tmp_path: Path) -> None:
    same = make_inspection(tmp_path / "same", shift_last=np.ones((40, 8), np.float32))
    with pytest.raises(UserError, match="last block are the same for all images"):
        tsne.data(same)


def test_attention_is_compared_with_that_of_the_original(seen: Path) -> None:
    found = attention.data(seen)
    assert found.mean_likeness == pytest.approx({"corrupted": -1, "adapted": 1}, abs=1e-4)
    fog, snow = found.examples
    assert (fog.task, snow.task) == ("fog", "snow")
    kept = Inspection.open(seen)
    np.testing.assert_array_equal(snow.image, kept.image[1])
    for kind, maps in found.maps.items():
        shares = maps[snow.at]
        assert shares.sum() == pytest.approx(1, abs=1e-5)
        raw = getattr(kept, f"attention_{kind}")[39]
        np.testing.assert_allclose(shares, raw / raw.sum(), rtol=1e-5)


def test_attention_does_without_originals(tmp_path: Path) -> None:
    nothing = {"attention_clean": np.zeros((0, 4, 4), np.float32), "original": np.zeros((0, 3, 32, 32), np.uint8)}
    folder = make_inspection(tmp_path / "no-originals", **nothing)
    with style.house_style():
        found, figure = kinds.make("attention", folder, {})
    assert found.mean_likeness == {}
    assert len(figure.axes) == 2 * 3, "image, before, after"
    assert correlation.data(folder).examples[0].original is None


def test_correlation_shows_the_block_asked_for(seen: Path) -> None:
    last, first = correlation.data(seen), correlation.data(seen, "first")
    np.testing.assert_array_equal(last.maps[last.examples[1].at], Inspection.open(seen).correlation_last[39])
    assert not first.maps[first.examples[1].at].any()
