"""Metrics of installed packages are columns of every table, for old runs as well; a broken one harms nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

import tta_bench
from tests.plugins.test_plugin import install
from tests.plugins.test_plugin import tta_bench as command
from tests.support.records import keep, make_record
from tta_bench import Metric
from tta_bench.errors import UserError
from tta_bench.records.store import Store
from tta_bench.report import metrics
from tta_bench.report.choose import comparison
from tta_bench.report.runs import Runs

CODE = """
from tta_bench import Metric

def share_of_zeros(predictions, record):
    "Share of predictions of class 0."
    return float((predictions.prediction == 0).mean())

quarter = lambda predictions, record: {task: 0.25 for task in record.cell.spec.tasks}
sure = Metric(quarter, "sure %", digits=1, better="higher")
breaks = Metric(lambda predictions, record: 1 / 0)
nothing = Metric(lambda predictions, record: float("nan"))
words = Metric(lambda predictions, record: "many")
other_task = Metric(lambda predictions, record: {"no such task": 1.0})
top1 = seven = 7
"""
NAMES = ("share-of-zeros", "sure", "breaks", "nothing", "words", "other_task", "top1", "seven")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    store = Store.create(tmp_path / "run", "s")
    for method in ("source", "tent"):
        for task in ("fog", "snow"):
            keep(store, make_record(method, task=task))
    return tmp_path / "run"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    entries = "\n".join(f"{name} = theirs:{name.replace('-', '_')}" for name in NAMES)
    install(tmp_path / "site", "theirs", f"{entries}\ngone = theirs:no_such", CODE, "metrics")
    return tmp_path / "site"


def test_a_metric_is_a_column_of_every_table(site: Path, run: Path, tmp_path: Path) -> None:
    asked = ("--metric", "share-of-zeros", "--metric", "sure")
    done = command(site, "report", run, *asked, "--format", "terminal,md,csv,latex,html")
    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_text() for path in (run / "report").iterdir()}
    assert files["leaderboard.csv"].splitlines()[0].endswith(",slow_first_batch,share-of-zeros,sure")
    assert files["leaderboard.csv"].splitlines()[1].endswith(",0.25")
    assert files["time.csv"].splitlines()[0].endswith(",share-of-zeros,sure %")
    for name in ("report.md", "leaderboard.md", "report.html", "time.tex"):
        assert "sure" in files[name], name
    assert "sure %" in done.stdout
    checked = command(site, "verify", run)
    assert (checked.returncode, "STALE" in checked.stdout) == (0, False), checked.stdout
    elsewhere = command(tmp_path, "verify", run)
    assert elsewhere.returncode == 0
    assert "metrics that are not installed here: share-of-zeros, sure" in " ".join(elsewhere.stdout.split())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("breaks", "ZeroDivisionError: division by zero"),
        ("nothing", "ValueError: expected a finite number, got 'nan'"),
        ("words", "ValueError: expected a finite number, got 'many'"),
        ("other_task", "KeyError: 'fog'"),
    ],
)
def test_what_a_metric_cannot_compute_is_a_warning(site: Path, run: Path, name: str, said: str) -> None:
    done = command(site, "report", run, "--metric", name, "--format", "terminal")
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert f"WARNING metric '{name}' of theirs gave no number for 4 of 4 cells: source on fog, seed 0: {said}" in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("surre", "unknown metric 'surre'; did you mean 'sure'?"),
        ("gone", "metric 'gone' of theirs cannot be imported (theirs:no_such): AttributeError"),
        ("seven", "metric 'seven' of theirs: expected a tta_bench.Metric or a function"),
    ],
)
def test_a_metric_that_cannot_be_used_is_one_line(site: Path, run: Path, name: str, said: str) -> None:
    done = command(site, "report", run, "--metric", name)
    assert (done.returncode, done.stderr.count("\n"), said in done.stderr) == (2, 1, True), done.stderr
    assert not (run / "report").exists()


def test_metrics_are_listed_and_broken_ones_named(site: Path) -> None:
    done = command(site, "list", "metrics")
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "share-of-zeros share-of-zeros – Share of predictions of class 0. theirs" in shown
    assert "metric 'gone' of theirs cannot be imported" in shown


def test_the_name_of_a_column_is_taken(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "load", lambda name: Metric(lambda *_: 1.0))
    runs = Runs([run])
    with pytest.raises(UserError, match="metric 'top1' of : a column of tta-bench has this name"):
        metrics.with_metrics(comparison(runs.records), runs, ["top1"])


def test_frames_have_metrics_that_were_asked_for(run: Path) -> None:
    made = tta_bench.frame(run, metrics=["brier", "worst-class"])
    assert made["brier"].between(0, 2).all()
    assert list(made.columns)[-2:] == ["brier", "worst-class"]
    assert "brier" not in tta_bench.frame(run)
