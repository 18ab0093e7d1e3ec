"""The sentences under a table: made from its records, right about who gains, who loses and what it costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.folders import ORDER, save
from tests.support.records import changed, make_record
from tta_bench.records.store import Store
from tta_bench.report.rows import compare
from tta_bench.report.runs import Runs
from tta_bench.report.summary import summary

RIGHT = {"none": ORDER < 0, "half": ORDER % 2 == 0, "most": ORDER % 10 != 0}


def sentences(folder: Path, rows: dict[str, dict[str, str]], ms: dict[str, float] | None = None) -> list[str]:
    """The summary of rows that got so much of each task right, over several seeds."""
    store = Store.create(folder, "s")
    for method, tasks in rows.items():
        for task, share in tasks.items():
            for seed in range(4):
                correct = RIGHT[share]
                made = make_record(method, float(correct.mean()), task=task, seed=seed, ms=(ms or {}).get(method, 1.0))
                save(store, changed(made, task_top1={task: float(np.mean(correct))}), correct)
    runs = Runs([store.folder])
    return summary(compare(runs.records), runs)


def test_gains_losses_and_costs_are_named(tmp_path: Path) -> None:
    rows = {
        "source": {"fog": "half", "snow": "half"},
        "good": {"fog": "most", "snow": "most"},
        "same": {"fog": "half", "snow": "half"},
        "bad": {"fog": "half", "snow": "none"},
    }
    gains, losses, costs = sentences(tmp_path / "run", rows, {"good": 3.0, "bad": 2.0})
    assert gains.startswith("On average good (+40.0, ")
    assert ") beats source; bad (-25.0, " in gains
    assert "loses to source; same (+0.0, -0.7 to +0.7) does not clearly differ from source" in gains
    assert losses == "Adapting clearly helps in 2 of 6 cells and harms in 1: bad on snow (50.0 to 0.0 %)."
    assert costs == "Time per image as a multiple of source: same 1.0, bad 2.0, good 3.0."


def test_no_loss_is_said_so(tmp_path: Path) -> None:
    rows = {"source": {"fog": "half"}, "good": {"fog": "most"}}
    assert sentences(tmp_path / "run", rows)[1] == "Adapting clearly helps in 1 of 1 cells and clearly harms in none."


def test_nothing_is_said_without_source(tmp_path: Path) -> None:
    assert sentences(tmp_path / "run", {"good": {"fog": "most"}, "bad": {"fog": "none"}}) == []
