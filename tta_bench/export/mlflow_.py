"""MLflow: a local file store with one experiment per suite, one run per cell, and one run with the tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tta_bench.export.base import Exporter
from tta_bench.export.content import Content, Run
from tta_bench.report import render

ALLOWED = "MLFLOW_ALLOW_FILE_STORE"  # without it, MLflow 3.7 and later refuse a store of plain files
MOST = 1000  # metrics that MLflow takes at once


class Mlflow(Exporter):
    """A folder for `mlflow ui --backend-store-uri`."""

    package, install = "mlflow", "tta-bench[mlflow]"
    then = f"{ALLOWED}=true mlflow ui --backend-store-uri {{out}}"

    def write(self, content: Content, out: Path) -> None:
        from mlflow import MlflowClient

        with _plain_files():
            client = MlflowClient(tracking_uri=out.as_uri())
            experiments = {
                name: client.create_experiment(name) for name in dict.fromkeys(r.suite for r in content.runs)
            }
            for run in content.runs:
                _log(client, experiments[run.suite], run)
            tables = client.create_run(next(iter(experiments.values())), run_name="tables").info.run_id
            for name, table in content.tables.items():
                client.log_text(tables, render.markdown(table), f"{name}.md")
                client.log_text(tables, render.csv_text(table), f"{name}.csv")
            client.set_terminated(tables)


def _log(client: Any, experiment: str, run: Run) -> None:
    from mlflow.entities import Metric, Param

    moment = int(1000 * run.finished)
    tags = {"method": run.method, "stream": run.stream, "seed": str(run.seed), "cell": run.key}
    if run.reason:
        tags["mlflow.note.content"] = run.reason
    made = client.create_run(experiment, start_time=moment, tags=tags, run_name=run.name).info.run_id
    given = {**run.conditions, **{f"settings.{key}": value for key, value in run.settings.items()}}
    client.log_batch(made, params=[Param(_name(key), str(value)) for key, value in given.items()])
    last = max(run.steps, default=0)
    metrics = [Metric(_name(key), value, moment, last) for key, value in run.numbers.items()]
    for key, points in run.curves.items():
        metrics += [Metric(_name(key), value, moment, images) for images, value in points]
    for start in range(0, len(metrics), MOST):
        client.log_batch(made, metrics=metrics[start : start + MOST])
    client.set_terminated(made, "FINISHED" if run.is_done else "FAILED", end_time=moment)


def _name(text: str) -> str:
    """A name that MLflow takes: letters, digits and a few signs."""
    return re.sub(r"[^\w\-. /]", "_", text)


@contextmanager
def _plain_files() -> Iterator[None]:
    before = os.environ.get(ALLOWED)
    os.environ[ALLOWED] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[ALLOWED]
        else:
            os.environ[ALLOWED] = before
