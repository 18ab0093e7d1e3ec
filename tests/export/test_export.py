"""`tta-bench export`: what other tools are given is what the tables say, and nothing else imports their packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tta_bench
from tests.support.cli import Cli
from tests.support.records import changed, keep, make_failure, make_record
from tta_bench.errors import UserError
from tta_bench.export import Content, base, wandb_
from tta_bench.export.content import collect
from tta_bench.records.store import Store
from tta_bench.report.runs import Runs

TARGETS = ("huggingface", "mlflow", "tensorboard", "wandb")


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"needs the package {package}")


@pytest.fixture
def content(run: Path) -> Content:
    keep(Store.open(run), make_failure("broken", "ValueError: no", task="fog"))
    return collect(Runs([run]))


def test_all_targets_are_registered() -> None:
    assert set(TARGETS) <= set(base.exporters().names())


def test_runs_have_the_numbers_of_the_frame(run: Path, content: Content) -> None:
    frame = tta_bench.frame(run)
    assert len(content.runs) == len(frame) == 5
    for made, (_, row) in zip(content.runs, frame.iterrows(), strict=True):
        assert (made.method, made.stream, made.seed) == (row["method"], row["task"], row["seed"])
        assert made.is_done == (row["status"] == "done")
        if made.is_done:
            assert made.numbers["accuracy"] == row["accuracy"]
            assert made.numbers["resets"] == row["resets"]
    failed = content.runs[-1]
    assert (failed.numbers, failed.curves, failed.reason) == ({}, {}, "ValueError: no")


def test_curves_follow_the_predictions(content: Content) -> None:
    better = next(made for made in content.runs if made.method == "better")  # wrong on its first 25 of 100 images
    assert better.curves["batch_accuracy"][:4] == ((10, 0.0), (20, 0.0), (30, 50.0), (40, 100.0))
    ends, values = zip(*better.curves["running_accuracy"], strict=True)
    np.testing.assert_allclose(values, [100 * max(0, end - 25) / end for end in ends])
    assert dict(better.curves["adapt_ms_per_image"])[20] == pytest.approx(3.0)


def test_batches_that_were_only_predicted_have_no_time(tmp_path: Path) -> None:
    from tta_bench.records.live import Live, schedule_digest

    store = Store.create(tmp_path / "run", "s")
    record = make_record("m", live=Live(1))
    seconds = [0.1, 0.0] * 5
    adapted = [0, 2, 4, 6, 8]
    keep(store, changed(record, batch_seconds=seconds, adapted_batches=adapted, schedule=schedule_digest(adapted)))
    (made,) = collect(Runs([store.folder])).runs
    assert [end for end, _ in made.curves["adapt_ms_per_image"]] == [10, 30, 50, 70, 90]
    assert len(made.curves["running_accuracy"]) == 10


def test_a_stream_over_several_tasks_has_each_tasks_accuracy(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    record = make_record("m", tasks=("fog", "snow"), scenario="continual")
    keep(store, changed(record, task_top1={"fog": 0.2, "snow": 0.8}))
    (made,) = collect(Runs([store.folder])).runs
    assert made.numbers["accuracy"] == pytest.approx(50)
    assert (made.numbers["accuracy of fog"], made.numbers["accuracy of snow"]) == pytest.approx((20, 80))


@needs("pyarrow")
def test_hugging_face_reads_the_folder(run: Path, cli: Cli, tmp_path: Path) -> None:
    status, out, err = cli("export", run, "--to", "huggingface", "--out", tmp_path / "hf")
    assert (status, err) == (0, "")
    assert f"hf upload OWNER/NAME {tmp_path / 'hf'} --repo-type dataset" in out
    frame = tta_bench.frame(run)
    runs = pd.read_parquet(tmp_path / "hf" / "runs.parquet")
    assert list(runs["accuracy"]) == list(frame["accuracy"])
    assert [json.loads(text) for text in runs["settings"]] == list(frame["settings"])
    assert len(pd.read_parquet(tmp_path / "hf" / "predictions.parquet")) == 400
    assert len(pd.read_parquet(tmp_path / "hf" / "curves.parquet")) == 40
    card = (tmp_path / "hf" / "README.md").read_text()
    assert "### s: accuracy (%)" in card
    assert "- config_name: curves\n  data_files: curves.parquet" in card


@needs("mlflow")
def test_mlflow_reads_the_store(run: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "store"
    assert cli("export", run, "--to", "mlflow", "--out", out)[0] == 0
    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=out.as_uri())
    experiment = client.get_experiment_by_name("s")
    found = client.search_runs([experiment.experiment_id], "tags.method = 'better' and tags.stream = 'fog'")
    (made,) = found
    assert made.data.metrics["accuracy"] == 75.0
    history = client.get_metric_history(made.info.run_id, "running_accuracy")
    assert [point.step for point in history] == [*range(10, 101, 10)]
    assert made.data.params["model"] == "m"


@needs("tensorboard")
def test_tensorboard_reads_the_events(run: Path, cli: Cli, tmp_path: Path) -> None:
    assert cli("export", run, "--to", "tensorboard", "--out", tmp_path / "tb")[0] == 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tb" / "s" / "fog" / "seed0" / "better")).Reload()
    assert [point.step for point in events.Scalars("running_accuracy")] == [*range(10, 101, 10)]
    assert events.Scalars("summary/accuracy")[0].value == 75.0
    assert "s/accuracy" in EventAccumulator(str(tmp_path / "tb" / "tables")).Reload().Tags()["tensors"]


@needs("wandb")
def test_wandb_leaves_one_offline_run_per_cell(run: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tta_bench.cli.main", "export", run, "--to", "wandb", "--out", tmp_path / "wb"]
    subprocess.run(command, check=True)  # its service outlives a call, so it gets a process of its own
    assert len(list((tmp_path / "wb" / "wandb").glob("offline-run-*/run-*.wandb"))) == 5  # four cells, and the tables


class FakeRun:
    """Keeps what it is given."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given, self.logged, self.summary, self.notes = given, [], {}, ""  # type: ignore[var-annotated]

    def __enter__(self) -> FakeRun:
        return self

    def __exit__(self, *_: object) -> None: ...

    def define_metric(self, name: str, step_metric: str) -> None:
        assert step_metric == "images"

    def log(self, values: dict[str, Any]) -> None:
        self.logged.append(values)


def test_wandb_is_given_settings_curves_and_tables(
    content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[FakeRun] = []
    fake: Any = ModuleType("wandb")
    fake.Settings, fake.Table = dict, lambda columns, data: (columns, data)
    fake.init = lambda **given: made.append(FakeRun(given)) or made[-1]  # type: ignore[func-returns-value]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    wandb_.Wandb().write(content, tmp_path)
    assert {run.given["mode"] for run in made} == {"offline"}
    *cells, tables = made
    assert [run.given["id"] for run in cells] == [run.key for run in content.runs]
    better = next(run for run in cells if run.given["group"] == "better")
    assert better.summary["accuracy"] == 75.0
    assert [step["images"] for step in better.logged] == [*range(10, 101, 10)]
    assert cells[-1].given["tags"] == ["failed"]
    columns, data = tables.logged[0]["s/accuracy"]
    assert columns[0] == "method"
    assert data[1][:2] == ["better", "75.0"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--to", "wanb"), "unknown export target 'wanb'; did you mean 'wandb'?"),
        (("--to", "absent"), "--to absent needs the package no_such_package: pip install 'x[absent]'"),
        (("--to", "huggingface", "--out", "{run}/cells"), "is not empty, and an export replaces nothing"),
        (("--to", "huggingface", "--out", "{run}/manifest.json"), "is a file, expected a folder"),
        (("--to", "huggingface", "--where", "seed=7"), "--where seed=7: no such record (known: seed=0)"),
        (("{run}", "--to", "huggingface"), "several run folders: pass --out DIR"),
    ],
)
@needs("pyarrow")
def test_mistakes_are_one_line(
    words: tuple[str, ...], line: str, run: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Absent(base.Exporter):
        package, install, then = "no_such_package", "x[absent]", ""

        def write(self, content: Content, out: Path) -> None: ...

    load = base.Group.load_class
    monkeypatch.setattr(base.Group, "load_class", lambda g, n, b: Absent if n == "absent" else load(g, n, b))
    status, out, err = cli("export", run, *(word.format(run=run) for word in words))
    assert (status, out) == (2, "")
    (said,) = err.splitlines()
    assert line in said


@needs("pyarrow")
def test_an_empty_folder_is_refused(cli: Cli, tmp_path: Path) -> None:
    Store.create(tmp_path / "run", "s")
    status, _, err = cli("export", tmp_path / "run", "--to", "huggingface", "--out", tmp_path / "out")
    assert (status, len(err.splitlines())) == (2, 1)
    assert "no records to export" in err
    assert not (tmp_path / "out").exists()


def test_a_failed_export_leaves_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(base.Exporter):
        package = "json"

        def write(self, content: Content, out: Path) -> None:
            (out / "part").write_text("half")
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(base, "exporter", lambda name: Half())
    with pytest.raises(UserError, match="cannot be written .No space left on device"):
        base.export_runs([run], [], "half", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_of_it_is_imported_otherwise(run: Path) -> None:
    script = (
        "import sys; from tta_bench.cli.main import main; main(['report', sys.argv[1], '--format', 'md']);"
        "names = ('torch', 'wandb', 'mlflow', 'tensorboard', 'tta_bench.export');"
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(run)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
