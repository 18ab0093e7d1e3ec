"""Filling the cache takes minutes on real data: a run shows its progress."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
import timm
import torch
from rich.console import Console
from safetensors.torch import save_file

from tests.support import trees
from tests.support.cli import Cli
from tta_bench.cli.run_progress import LiveWatcher, RunWatcher

TAG = "test_vit.r160_in1k"
SUITE = """
name: tree
about: a small tree
data: {kind: imagenet-c, severity: 5, allow_partial: true}
tasks: [fog, snow]
model: none
batch_size: 64
methods: {source: {}, tent: {}}
"""


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    trees.imagenet_c(tmp_path, ("fog", "snow"), classes=2, each=50)
    (tmp_path / "tree.yaml").write_text(SUITE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(timm.create_model(TAG).state_dict(), tmp_path / "vit.safetensors")
    model = f"{TAG}={tmp_path / 'vit.safetensors'}"
    where = ["--data-root", tmp_path, "--cache", tmp_path / "cache"]
    return ["run", "--suite", tmp_path / "tree.yaml", "--model", model, "--readers", 0, *where, "--limit", 32]


def test_a_run_reports_its_cache_once(cli: Cli, words: list[object], tmp_path: Path) -> None:
    status, shown, err = cli(*words, "--out", tmp_path / "first")
    assert status == 0, err
    reported = [line for line in shown.splitlines() if line.startswith("caching")]
    assert reported == [f"caching {task}: {done} of 100 images" for task in ("fog", "snow") for done in (64, 100)]
    status, shown, _ = cli(*words, "--out", tmp_path / "second")
    assert (status, "caching" in shown) == (0, False)


def test_a_line_for_each_tenth() -> None:
    screen = io.StringIO()
    watcher = RunWatcher(2, Console(file=screen))
    for task in ("fog", "snow"):
        for done in (*range(64, 50_000, 64), 50_000):
            watcher.on_cache(task, done, 50_000)
    lines = screen.getvalue().splitlines()
    assert len(lines) == 22
    assert (lines[0], lines[10]) == ("caching fog: 64 of 50,000 images", "caching fog: 50,000 of 50,000 images")


def test_the_bar_shows_the_cache_and_then_the_cell_again() -> None:
    watcher = LiveWatcher(2, Console(file=io.StringIO(), force_terminal=True))
    (bar,) = (task for task in watcher.bars.tasks if task.id == watcher.one)
    watcher.on_cache("fog", 64, 200)
    watcher.on_cache("fog", 128, 200)
    assert (bar.description, bar.completed, bar.total, bar.visible) == ("caching fog", 128, 200, True)
    watcher.on_cache("fog", 200, 200)
    assert not bar.visible
    watcher.on_start(SimpleNamespace(label="sar", name="snow"), 90)  # type: ignore[arg-type]
    for done in (64, 128, 200):
        watcher.on_cache("snow", done, 200)
    assert (bar.description, bar.completed, bar.total, bar.visible) == ("sar on snow", 0, 90, True)
