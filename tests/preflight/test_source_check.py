"""The published rows are right, and a Source that is far from them is noticed before a long run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import trees
from tests.support.cli import SMALL, Cli
from tests.support.records import keep, make_record
from tests.support.works import CPU, requests
from tta_bench.errors import CellFailed
from tta_bench.models import published
from tta_bench.models.source import SourceModel
from tta_bench.notes import warning
from tta_bench.papers.baseline import SourceRow, source_row
from tta_bench.papers.paper import PaperTable, Published, load
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.report.paper_conditions import why_not
from tta_bench.report.rows import Row
from tta_bench.report.runs import Runs
from tta_bench.runs import source_check
from tta_bench.runs.bind import Binder
from tta_bench.runs.site import Site
from tta_bench.streams.scenarios import scenario_of

HALF = (0.5, 0.5, 0.5)


def expecting(monkeypatch: pytest.MonkeyPatch, **rows: float) -> None:
    """A paper in which Source scores this many percent on these tasks."""
    table = PaperTable(suites=("small",), source_above="too good", source_below="too bad")
    found = {task: SourceRow(Published(accuracy), table) for task, accuracy in rows.items()}
    monkeypatch.setattr(source_check, "source_row", lambda paper, suite, task: found.get(task))


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
    said = source_check.judge("gaussian_noise", hits, 1024, row, mean)
    assert (said is None) if cause is None else (said is not None and cause in said)


def test_a_run_warns_and_the_report_remembers(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expecting(monkeypatch, contrast=99.9)
    (tmp_path / "small.yaml").write_text(SMALL + "paper: dpal\n")
    command = ("--suite", tmp_path / "small.yaml", "--methods", "source", "--limit", 64, "--out", tmp_path / "run")
    _, shown, _ = cli("run", *command)
    assert "the paper reports 99.9 %" in " ".join(shown.split())
    _, reported, _ = cli("report", tmp_path / "run")
    assert "the paper reports 99.9 %" in " ".join(reported.split())


@pytest.mark.parametrize("error", [CellFailed("out of memory"), RuntimeError("out of memory")])
def test_a_source_that_fails_is_a_warning(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*given: object) -> None:
        raise error

    expecting(monkeypatch, contrast=99.9)
    monkeypatch.setattr(source_check, "run_at", fail)
    (tmp_path / "small.yaml").write_text(SMALL + "paper: dpal\n")
    command = ("--suite", tmp_path / "small.yaml", "--methods", "source", "--limit", 64, "--out", tmp_path / "run")
    code, shown, _ = cli("run", *command)
    said = " ".join(shown.split())
    assert code == 0
    assert "Source was not compared with what is published, it failed:" in said
    assert "out of memory" in said
    assert Store.open(tmp_path / "run").warnings() == {}, "it says nothing about the weights"


def suspicious(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accuracy: float = 99.9, **choices: Any
) -> dict[str, str]:
    expecting(monkeypatch, contrast=accuracy)
    (tmp_path / "small.yaml").write_text(SMALL + "paper: dpal\n")
    return source_check.suspicions(requests(tmp_path / "small.yaml", methods=("source",), **choices), Binder(CPU))


@pytest.mark.parametrize("scenario", ["single", "continual", "gradual", "label-shift", "mixed"])
def test_every_scenario_is_judged_on_the_same_fair_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    """Not on the few classes, the low severity or the mixture that it starts with."""
    found = suspicious(tmp_path, monkeypatch, scenario=scenario_of(scenario))
    assert found == suspicious(tmp_path, monkeypatch)
    (warning,) = found.values()
    assert "images of contrast, the paper reports 99.9 %" in warning


def test_too_few_images_clear_no_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(suspicious(tmp_path, monkeypatch, accuracy=39.0).values()) == [""]
    assert suspicious(tmp_path, monkeypatch, accuracy=39.0, limit=2) == {}
    store = Store.create(tmp_path / "run", "small")
    store.note_warnings({"bad weights": "far off"})
    store.note_warnings({})
    store.note_warnings({"good weights": ""})
    assert store.warnings() == {"bad-weights": "far off"}
    store.note_warnings({"bad weights": ""})
    assert store.warnings() == {}


def test_a_report_warns_about_the_weights_it_shows(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    keep(store, make_record("sar"))
    used = make_record("sar").cell.found.weights
    store.note_warnings({"others": "not of these records", used: "far off"})
    assert Runs([tmp_path / "run"]).warnings() == [warning("far off")]


CIFAR = (
    "name: mine\nabout: a test\nmodel: digits-vit\nbatch_size: 8\ntasks: [fog]\n"
    "data: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}\nmethods: {source: {}}\n"
)


def by_clean_images(home: Path, monkeypatch: pytest.MonkeyPatch, accuracy: float, **choices: Any) -> list[str]:
    """The warnings for a model whose authors state this accuracy on clean images."""
    row = published.PublishedModel("digits-vit", "CIFAR-10", "cifar-c", 10, 32, accuracy, "", "")
    monkeypatch.setattr(published, "table", lambda: (replace(row, classes=100, clean=1.0), row))
    (home / "suite.yaml").write_text(CIFAR)
    site = Site(data_root=home, device="cpu", in_process=True)
    return list(source_check.suspicions(requests(home / "suite.yaml", **choices), Binder(site)).values())


def test_a_model_is_compared_with_its_published_clean_accuracy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = trees.cifar_c(tmp_path)
    assert by_clean_images(tmp_path, monkeypatch, 99.0) == [], "there are no clean images"
    labels = np.load(home / "labels.npy")
    clean = np.zeros((len(labels) // 5, 32, 32, 3), np.uint8)
    np.save(home / "original.npy", clean)
    (warning,) = by_clean_images(tmp_path, monkeypatch, 99.9)
    assert f"on {len(clean)} clean images, 99.9 % is published for digits-vit" in warning
    measured = float(warning.split()[2])
    assert by_clean_images(tmp_path, monkeypatch, measured) == [""]
    assert by_clean_images(tmp_path, monkeypatch, measured, limit=1) == [], "too few images clear no warning"


def test_every_source_model_is_tried_on_its_own_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Binder.model

    def own(self: Binder, spec: CellSpec) -> SourceModel:
        (task,) = spec.tasks
        return replace(real(self, spec), name=task, weights_hash=f"weights of {task}")

    monkeypatch.setattr(Binder, "model", own)
    expecting(monkeypatch, contrast=99.9, brightness=99.9)
    (tmp_path / "small.yaml").write_text(SMALL + "paper: dpal\n")
    found = source_check.suspicions(requests(tmp_path / "small.yaml", methods=("source",)), Binder(CPU))
    assert {weights: text.split("images of ")[1].split(",")[0] for weights, text in found.items()} == {
        "weights of contrast": "contrast",
        "weights of brightness": "brightness",
    }


def test_other_weights_than_the_papers_are_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rule of `report --paper`, which says that their numbers are not comparable."""
    table = PaperTable(suites=("small",), model="the paper's model", source_below="too bad")
    monkeypatch.setattr(source_check, "source_row", lambda paper, suite, task: SourceRow(Published(99.9), table))
    (tmp_path / "small.yaml").write_text(SMALL + "paper: dpal\n")
    specs = requests(tmp_path / "small.yaml", methods=("source",))
    assert list(source_check.suspicions(specs, Binder(CPU)).values()) == [""]
    record = make_record("source", model="digits-vit")
    assert "other weights: digits-vit" in why_not(Row("source", (record,)), load("dpal"), table)[0]


def test_a_suite_that_borrows_a_name_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expecting(monkeypatch, contrast=99.9)
    (tmp_path / "small.yaml").write_text(SMALL.replace("name: small", "name: imagenet-c-5") + "paper: dpal\n")
    assert source_check.suspicions(requests(tmp_path / "small.yaml", methods=("source",)), Binder(CPU)) == {}
