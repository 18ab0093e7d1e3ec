"""The published rows are right, and a Source that is far from them is noticed before hours are spent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL, Cli
from tests.records import keep, make_record
from tests.works import CPU, requests
from tta_bench.models.source import SourceModel
from tta_bench.papers.answers import SourceRow, source_row
from tta_bench.papers.paper import PaperTable, Published
from tta_bench.records.store import Store
from tta_bench.report.runs import Runs
from tta_bench.runs import tripwire
from tta_bench.runs.bind import Binder
from tta_bench.runs.spec import CellSpec
from tta_bench.streams.scenarios import scenario_of

HALF = (0.5, 0.5, 0.5)


def expecting(monkeypatch: pytest.MonkeyPatch, **rows: float) -> None:
    """A paper in which Source scores so many percent on these tasks."""
    table = PaperTable(suites=("small",), source_above="too good", source_below="too bad")
    found = {task: SourceRow(Published(accuracy), table) for task, accuracy in rows.items()}
    monkeypatch.setattr(tripwire, "source_row", lambda paper, suite, task: found.get(task))


@pytest.mark.parametrize(
    ("hits", "mean", "cause"),
    [
        (480, HALF, None),
        (440, HALF, None),
        (300, HALF, "29.9"),
        (300, (0.485, 0.456, 0.406), "this model uses mean"),
        (600, HALF, "augreg2"),
    ],
)
def test_the_verdict_names_the_likely_cause(hits: int, mean: tuple[float, ...], cause: str | None) -> None:
    row = source_row("dpal", "imagenet-c-5", "gaussian_noise")
    assert row is not None
    said = tripwire.judge("gaussian_noise", hits, 1024, row, mean)
    assert (said is None) if cause is None else (said is not None and cause in said)


def test_a_run_warns_and_the_report_remembers(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expecting(monkeypatch, contrast=99.9)
    (tmp_path / "small.yaml").write_text(SMALL + "paper: dpal\n")
    command = ("--suite", tmp_path / "small.yaml", "--methods", "source", "--limit", 64, "--out", tmp_path / "run")
    _, shown, _ = cli("run", *command)
    assert "the paper reports 99.9 %" in " ".join(shown.split())
    _, reported, _ = cli("report", tmp_path / "run")
    assert "the paper reports 99.9 %" in " ".join(reported.split())


def suspicious(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accuracy: float = 99.9, **choices: Any
) -> dict[str, str]:
    expecting(monkeypatch, contrast=accuracy)
    (tmp_path / "small.yaml").write_text(SMALL + "paper: dpal\n")
    return tripwire.suspicions(requests(tmp_path / "small.yaml", methods=("source",), **choices), Binder(CPU))


@pytest.mark.parametrize("scenario", ["single", "continual", "gradual", "label-shift", "mixed"])
def test_every_scenario_is_held_against_the_same_fair_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    """Not against the few classes, the mild severity or the mixture with which it begins."""
    found = suspicious(tmp_path, monkeypatch, scenario=scenario_of(scenario))
    assert found == suspicious(tmp_path, monkeypatch)
    (told,) = found.values()
    assert "images of contrast, the paper reports 99.9 %" in told


def test_few_images_take_no_warning_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(suspicious(tmp_path, monkeypatch, accuracy=39.0).values()) == [""]
    assert suspicious(tmp_path, monkeypatch, accuracy=39.0, limit=2) == {}
    store = Store.create(tmp_path / "run", "small")
    store.note_warnings({"bad weights": "far off"})
    store.note_warnings({})
    store.note_warnings({"good weights": ""})
    assert store.warnings() == {"bad-weights": "far off"}
    store.note_warnings({"bad weights": ""})
    assert store.warnings() == {}


def test_a_report_warns_of_the_weights_it_shows(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    keep(store, make_record("sar"))
    used = make_record("sar").cell.weights
    store.note_warnings({"others": "not of these records", used: "far off"})
    assert Runs([tmp_path / "run"]).warnings() == ["far off"]


def test_every_source_model_is_tried_on_a_task_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Binder.model

    def own(self: Binder, spec: CellSpec) -> SourceModel:
        (task,) = spec.tasks
        return replace(real(self, spec), name=task, weights_hash=f"weights of {task}")

    monkeypatch.setattr(Binder, "model", own)
    expecting(monkeypatch, contrast=99.9, brightness=99.9)
    (tmp_path / "small.yaml").write_text(SMALL + "paper: dpal\n")
    found = tripwire.suspicions(requests(tmp_path / "small.yaml", methods=("source",)), Binder(CPU))
    assert {weights: told.split("images of ")[1].split(",")[0] for weights, told in found.items()} == {
        "weights of contrast": "contrast",
        "weights of brightness": "brightness",
    }
