"""From `tune` to `run --settings`: what was tried is kept, and tables say where settings come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Cli
from tests.support.records import make_record
from tta_bench.cli import options, tune
from tta_bench.errors import UserError
from tta_bench.records.store import Store
from tta_bench.runs import tuned
from tta_bench.runs.options import RunOptions
from tta_bench.runs.spec import resolve
from tta_bench.runs.tuned import Trial, Tuned, choose
from tta_bench.suites import suite

CONDITIONS: dict[str, Any] = {
    "suite": "digits-c-holdout",
    "data": {"kind": "digits-c", "severity": 5},
    "tasks": ("spatter", "saturate"),
    "seeds": (0, 1),
    "model": "digits-vit",
    "limit": None,
}


def found(*tried: tuple[float, float | None], **changes: Any) -> Tuned:
    """The choice among learning rates and their accuracies."""
    return choose([Trial({"lr": lr}, accuracy) for lr, accuracy in tried], **{**CONDITIONS, **changes})


def test_tune_writes_what_run_takes(cli: Cli, tmp_path: Path) -> None:
    file, run = tmp_path / "chosen.yaml", tmp_path / "run"
    words = ("tune", "--method", "tent", "--limit", 32, "--tasks", "spatter", "--out", tmp_path / "t")
    status, shown, _ = cli(*words, "--grid", "lr=1e-4,1e-2", "--write", file)
    assert (status, "Best of 2 tried: --set tent.lr=" in shown) == (0, True)
    before = tuned.read(file)["tent"]
    cli(*words, "--grid", "lr=1e-3", "--write", file)
    entry = tuned.read(file)["tent"]
    assert [trial.settings["lr"] for trial in before.tried] == [
        t.settings["lr"] for t in entry.tried if t.settings["lr"] != 1e-3
    ]
    accuracies = [trial.accuracy for trial in entry.tried]
    assert accuracies == sorted(accuracies, reverse=True)
    assert (entry.accuracy, entry.settings) == (accuracies[0], entry.tried[0].settings)
    status, shown, _ = cli(
        *("run", "--suite", "digits-c-5", "--tasks", "fog", "--methods", "source,tent", "--limit", 32),
        *("--settings", file, "--out", run),
    )
    assert status == 0, shown
    row = f"tent (lr={entry.settings['lr']:g})"
    said = f"{row}: settings chosen on digits-c-holdout (spatter; seed 0, 32 images per task), the best of 3."
    assert said in " ".join(shown.split())
    assert f"WARNING {said}" not in " ".join(shown.split()), "held-out data is as it should be"
    _, shown, _ = cli("report", run)
    assert said in " ".join(shown.split()), "a later report says it too"
    assert said in (run / "report" / "report.md").read_text()
    lr = entry.settings["lr"]
    cells = [record.cell.spec for record in Store.open(run).records()]
    assert {spec.settings["lr"] for spec in cells if spec.method == "tent"} == {lr}


def test_a_criterion_without_labels_scores_rows_in_bf16(cli: Cli, tmp_path: Path) -> None:
    """Their labels in tables end with the mode."""
    file = tmp_path / "chosen.yaml"
    words = ("tune", "--method", "tent", "--limit", 32, "--tasks", "spatter", "--out", tmp_path / "t", "--amp", "bf16")
    assert cli(*words, "--criterion", "entropy", "--grid", "lr=1e-4,1e-2", "--write", file)[0] == 0
    assert all(trial.score is not None for trial in tuned.read(file)["tent"].tried)


def test_trials_of_the_same_search_are_joined(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    tuned.add(file, "tent", found((0.1, 60.0), (0.2, 50.0)))
    tuned.add(file, "sar", found((0.3, 55.0)))
    tuned.add(file, "tent", found((0.2, 70.0), (0.4, None)))
    entry = tuned.read(file)["tent"]
    assert [(t.settings["lr"], t.accuracy) for t in entry.tried] == [(0.2, 70.0), (0.1, 60.0), (0.4, None)]
    assert set(tuned.read(file)) == {"tent", "sar"}
    tuned.add(file, "tent", found((0.5, 10.0), seeds=(7,)))
    assert tuned.read(file)["tent"].settings == {"lr": 0.5}, "another search replaces it"


def test_nothing_is_chosen_if_all_failed() -> None:
    with pytest.raises(UserError, match="every combination of settings failed"):
        found((0.1, None))


def test_a_setting_on_the_command_line_wins_and_is_not_called_chosen(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    tuned.add(file, "tent", found((0.1, 60.0)))
    asked = RunOptions(suite="digits-c-5", methods=("source", "tent"), settings=file)
    _, options, chosen = resolve(asked)
    assert options.overrides == {"tent": {"lr": 0.1}}
    assert chosen["tent (lr=0.1)"].startswith(
        "tent (lr=0.1): settings chosen on digits-c-holdout (spatter, saturate; seeds 0, 1)"
    )
    _, options, chosen = resolve(replace(asked, methods=("tent",), set={"tent": {"lr": 0.7}}))
    assert (options.overrides, chosen) == ({"tent": {"lr": 0.7}}, {})


def test_settings_chosen_on_the_scored_tasks_are_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    tuned.add(file, "tent", found((0.1, 60.0), tasks=("fog", "spatter")))
    said = resolve(RunOptions(suite="digits-c-5", settings=file))[2]["tent (lr=0.1)"]
    assert said.startswith("WARNING tent (lr=0.1): settings chosen on ")
    assert said.endswith("This table scores fog too.")
    elsewhere = resolve(RunOptions(suite="digit-pairs-c-5", settings=file))[2]["tent (lr=0.1)"]
    assert not elsewhere.startswith("WARNING"), "other images"


def test_bad_settings_files_are_one_line(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    words = ("run", "--suite", "digits-c-5", "--methods", "source", "--settings", file, "--out", tmp_path / "run")
    assert "cannot be read" in cli(*words)[2]
    file.write_text("[]")
    assert "expected methods with their settings" in cli(*words)[2]
    tuned.add(tmp_path / "other.yaml", "tent", found((0.1, 60.0)))
    content = yaml.safe_load((tmp_path / "other.yaml").read_text())
    file.write_text(yaml.safe_dump({"tent": {**content["tent"], "acuracy": 1}}))
    assert "settings.yaml: tent: unknown key 'acuracy'; did you mean 'accuracy'?" in cli(*words)[2]
    file.write_text(yaml.safe_dump(content))
    assert f"--settings {file}: has no settings for source" in cli(*words)[2]
    assert not (tmp_path / "run").exists()


def test_conditions_are_all_that_matters_for_joining() -> None:
    one = found((0.1, 60.0))
    assert one.conditions == found((0.2, 50.0)).conditions
    assert one.conditions != replace(one, limit=5).conditions


def test_a_criterion_without_labels_decides_by_its_score(tmp_path: Path) -> None:
    tried = [Trial({"lr": 0.1}, 80.0, -0.5), Trial({"lr": 1.0}, 20.0, -0.1), Trial({"lr": 9.0}, None)]
    found = choose(tried, "entropy", **CONDITIONS)
    assert (found.settings, found.accuracy, found.criterion) == ({"lr": 1.0}, 20.0, "entropy")
    assert tuned.add(tmp_path / "settings.yaml", "tent", found) == tuned.read(tmp_path / "settings.yaml")["tent"]
    by_accuracy = choose(tried, **CONDITIONS)
    assert by_accuracy.settings == {"lr": 0.1}
    assert by_accuracy.conditions != found.conditions, "searches by another criterion are not joined"


@pytest.mark.parametrize(("top1", "is_below"), [(125 / 128, False), (126 / 128, True)])
def test_source_is_above_only_by_more_than_rounding(
    capsys: pytest.CaptureFixture[str], top1: float, is_below: bool
) -> None:
    trial = Trial({"lr": 0.1}, round(100 * 125 / 128, 4))
    tune._warn(choose([trial], **CONDITIONS), [make_record("source", top1)], options.console())
    assert ("is below Source" in capsys.readouterr().out) == is_below


@pytest.mark.slow
def test_tune_shows_source_and_warns(cli: Cli, tmp_path: Path) -> None:
    words = ("tune", "--method", "tent", "--limit", 32, "--tasks", "spatter", "--out", tmp_path / "t", "--jobs", 2)
    status, shown, _ = cli(*words, "--grid", "lr=10,100", "--set", "tent.steps=2")
    shown = " ".join(shown.split())
    assert status == 0
    assert "against Source" in shown
    assert "95 % low" in shown
    assert "is at the edge of its grid: try values beyond it" in shown
    assert "is below Source" in shown, "such rates destroy the model"
    entry = tuned.read(tmp_path / "t" / "settings.yaml")["tent"]
    assert (entry.by_hand, set(entry.settings)) == ({"steps": 2}, {"steps", "lr"})
    said = entry.sentence("tent (x)", suite.load("digits-c-5"), ("fog",))
    assert said.startswith("tent (x): lr chosen on digits-c-holdout")
    assert said.endswith("the best of 2. Set by hand: steps=2.")
    assert {record.cell.spec.method for record in Store.open(tmp_path / "t").records()} == {"source", "tent"}


def test_the_middle_of_a_grid_is_no_edge() -> None:
    assert tuned.at_edges(found((0.1, 50.0), (0.2, 60.0), (0.3, 55.0))) == []
    assert tuned.at_edges(found((0.1, 50.0), (0.2, 60.0))) == ["lr=0.2"]
    assert tuned.at_edges(found((0.1, 50.0))) == []
