"""Mistakes in a Python call are one line, as those of a command line are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tta_bench
from tests.support.cli import Cli
from tta_bench import Method, settings
from tta_bench.errors import UserError
from tta_bench.records.record import SCHEMA
from tta_bench.records.store import Store


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"amp": "fp16"}, "^amp: expected bf16, got 'fp16'$"),
        ({"seeds": [-1]}, "^seeds: expected a whole number of at least 0, got -1$"),
        ({"seeds": 1}, "^seeds: expected whole numbers as in 0,1,2, got 1$"),
        ({"seeds": [0.5]}, "^seeds: expected whole numbers"),
        ({"limit": 0}, "^limit: expected a whole number of at least 1, got 0$"),
        ({"limit": True}, "^limit: expected a whole number of at least 1, got True$"),
        ({"batch_size": -1}, "^batch_size: expected a whole number of at least 1, got -1$"),
        ({"time_limit": "2 hours"}, "^time_limit: expected a time above 0 as in 90s, 2m or 2h, got '2 hours'$"),
        ({"compile": "no"}, "^compile: expected True or False, got 'no'$"),
        ({"cache": 3}, "^cache: expected a path, got 3$"),
        ({"jobs": 0}, "^jobs: expected a whole number of at least 1, got 0$"),
        ({"busy": "source"}, "^busy requires stream_speed above 0$"),
        ({"orders": 2, "seeds": [5]}, "^orders chooses the seeds: omit seeds, or use seeds without orders$"),
        ({"imbalance": 9}, r"^imbalance requires scenario label-shift \(got normal\)$"),
        ({"scenario": "single", "batch_size": 8}, "^scenario single requires batches of 1, got 8: omit batch_size$"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"workers": 2}, "^run has no option 'workers'"),
        ({"settings": "none.yaml"}, "^settings none.yaml cannot be read"),
        ({"methods": {"tent": {"lr": np.float32(0.1)}}}, "method 'tent': lr is .*0.1.*, which a record cannot hold"),
        ({"methods": {"tent": {"lr": math.inf}}}, "method 'tent': lr is inf, which a record cannot hold"),
    ],
)
def test_bad_arguments(small_suite: Path, tmp_path: Path, words: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        tta_bench.run(suite=str(small_suite), out=tmp_path / "run", **{"methods": ["source"], **words})
    assert not (tmp_path / "run").exists()


def test_seeds_may_be_an_array(small_suite: Path, tmp_path: Path) -> None:
    one = {"tasks": ["contrast"], "limit": 8, "out": tmp_path / "run"}
    assert len(tta_bench.run(["source"], str(small_suite), seeds=np.arange(2), **one).records) == 2


@pytest.mark.parametrize("value", ["1e999", "1j", "{1,2}", "b'x'", "{[]:1}"])
def test_values_that_no_record_can_hold(cli: Cli, small_suite: Path, tmp_path: Path, value: str) -> None:
    Store.create(tmp_path / "run", "small")
    status, _, err = cli("run", "--suite", small_suite, "--set", f"tent.lr={value}", "--out", tmp_path / "run")
    assert (status, err.count("\n")) == (2, 1), err


def test_a_default_that_no_record_can_hold() -> None:
    class Endless(Method):
        def __init__(self, model: Any, *, num_classes: int, batch_size: int = 64, max_norm: float = math.inf) -> None:
            super().__init__(model, num_classes=num_classes, batch_size=batch_size)

    with pytest.raises(UserError, match="method 'Endless': max_norm is inf"):
        settings.resolve(Endless, {}, 0)


def test_fresh_moves_only_runs_aside(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    status, _, err = cli("run", "--suite", small_suite, "--fresh", "--out", tmp_path)
    assert (status, "holds other files and no manifest.json" in err) == (2, True)
    assert (tmp_path / "thesis.tex").exists()


def test_a_record_of_another_version_says_what_to_do(cli: Cli, run: Path) -> None:
    file = next((run / "cells").glob("*.json"))
    file.write_text(file.read_text().replace(f'"schema": {SCHEMA}', '"schema": 1').partition(',\n "digest"')[0] + "\n}")
    _, _, err = cli("report", run)
    said = f"written by another version of tta-bench (schema 1, here {SCHEMA}): read it with that version"
    assert said in " ".join(err.split())
