"""A plan: what is wrong is known before time is spent, and each task gets what is its own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import trees
from tta_bench.errors import UserError
from tta_bench.models.source import SourceModel
from tta_bench.run import plan as plans
from tta_bench.run.choices import Choices
from tta_bench.run.plan import Plan
from tta_bench.suites.suite import load


def test_each_task_has_the_size_of_its_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = plans.source_model

    def own(task: str, *rest: Any) -> SourceModel:
        return replace(real(task, *rest), name=task, input_size={"fog": 32, "snow": 48}[task])

    monkeypatch.setattr(plans, "source_model", own)
    trees.cifar_c(tmp_path, corruptions=("fog", "snow"))
    (tmp_path / "suite.yaml").write_text(
        "name: mine\nabout: a test\nmodel: digits-vit\nbatch_size: 8\ntasks: [fog, snow]\n"
        "data: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}\nmethods: {source: {}}\n"
    )
    plan = Plan(load(str(tmp_path / "suite.yaml")), Choices(device="cpu", data_root=tmp_path))
    assert [plan.open(task).read(np.array([0])).shape[-1] for task in ("fog", "snow")] == [32, 48]
    views = [work.cell.data.get("transform") for work in plan.work()]
    assert (views[0], views[1]["crop"]) == (None, 48)


def test_a_cache_that_cannot_be_made_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != tmp_path
    )  # of root it would say that all may be written
    with pytest.raises(UserError, match="--cache .*: .* cannot be written"):
        Choices(cache=tmp_path / "deep" / "cache")


def test_a_cache_below_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="--cache .*file is a file, expected a folder"):
        Choices(cache=tmp_path / "file" / "cache")
    Choices(cache=tmp_path / "new" / "cache")
