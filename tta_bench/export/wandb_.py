"""Weights & Biases: one offline run per cell, grouped by row, and one run with the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tta_bench.export.base import Exporter
from tta_bench.export.content import Content, Run


class Wandb(Exporter):
    """Offline runs. `wandb sync` sends them, with the login of whoever runs it."""

    package, install, then = "wandb", "tta-bench[wandb]", "wandb sync {out}/wandb/offline-run-*"

    def write(self, content: Content, out: Path) -> None:
        import wandb

        # Nothing about this machine belongs into a run that was made elsewhere.
        quiet = wandb.Settings(
            silent=True,
            console="off",
            disable_git=True,
            save_code=False,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
        )
        shared = {"mode": "offline", "dir": str(out), "settings": quiet, "reinit": "create_new"}
        for run in content.runs:
            with wandb.init(project=run.suite, **_identity(run), **shared) as made:
                for name in run.curves:
                    made.define_metric(name, step_metric="images")
                for images, values in run.steps.items():
                    made.log({"images": images, **values})
                made.summary.update(dict(run.numbers))
        with wandb.init(project=content.runs[0].suite, name="tables", job_type="tables", **shared) as made:
            for name, table in content.tables.items():
                rows = [[label, *map(str, values)] for label, values in table.rows]
                made.log({name: wandb.Table(columns=[table.head, *table.columns], data=rows)})
            made.notes = "\n".join(content.notes)


def _identity(run: Run) -> dict[str, Any]:
    config = {**run.conditions, "method": run.method, "settings": dict(run.settings)}
    failed = {} if run.is_done else {"tags": ["failed"], "notes": run.reason}
    return {"id": run.key, "name": run.name, "group": run.method, "job_type": run.stream, "config": config, **failed}
