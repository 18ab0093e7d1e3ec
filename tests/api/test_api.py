"""`tta_bench.run` does what the command does, and accepts a class that is in no package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor

import tta_bench
from tests.support.cli import Cli
from tta_bench import Method, registry
from tta_bench.errors import UserError
from tta_bench.records.store import Store


class Mine(Method):
    """Source, with noise of a chosen strength in its logits."""

    def __init__(self, model: torch.nn.Module, *, num_classes: int, batch_size: int = 64, noise: float = 0.0) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.model.eval()
        self.noise = noise

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        logits: Tensor = self.model(batch)
        return logits + self.noise * torch.randn(logits.shape, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _no_classes_left() -> None:
    registry.installed().given.clear()


def test_run_does_what_the_command_does(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    results = tta_bench.run(["source"], str(small_suite), limit=32, device="cpu", out=tmp_path / "run")
    assert [record.status for record in results.records] == ["done", "done"]
    words = ("run", "--suite", small_suite, "--methods", "source", "--limit", 32, "--device", "cpu")
    _, shown, _ = cli(*words, "--out", tmp_path / "run")
    assert "Reused 2 of 2 cells" in shown
    assert cli(*words, "--out", tmp_path / "other")[0] == 0
    other = {record.cell.key: record.scores.top1 for record in Store.open(tmp_path / "other").records()}
    assert {record.cell.key: record.scores.top1 for record in results.records} == other


def test_a_class_needs_no_package(small_suite: Path, tmp_path: Path) -> None:
    rows = {"source": {}, "mine": Mine}
    results = tta_bench.run(rows, str(small_suite), limit=32, device="cpu", out=tmp_path / "run")
    assert {record.label: record.status for record in results.records} == {"source": "done", "mine": "done"}
    shown = repr(results.table())
    assert "mine" in shown
    assert "contrast" in shown or "cnt" in shown
    noisy = {"source": {}, "mine": Mine, "noisy": {"method": "mine", "noise": 100.0}}
    more = tta_bench.run(noisy, str(small_suite), limit=32, device="cpu", out=tmp_path / "run")
    accuracy = {record.label: record.scores.top1 for record in more.records if record.cell.name == "brightness"}
    assert accuracy["source"] == accuracy["mine"] > accuracy["noisy (noise=100)"]


def test_tables_show_themselves(small_suite: Path, tmp_path: Path) -> None:
    results = tta_bench.run(["source", "tent"], str(small_suite), limit=64, device="cpu", out=tmp_path / "run")
    html = results.table()._repr_html_()
    assert "<td>" in html
    assert "tent" in html
    found = results.compare("source", "tent")
    assert found.sentence
    assert found.sentence.split()[0] in repr(found)
    console = Console(width=120, record=True)
    console.print(results.times())
    assert "ms/image" in console.export_text()
    assert found.markdown().startswith("###")
    assert results.table().csv().startswith("method,")


def test_a_frame_holds_this_calls_cells(small_suite: Path, tmp_path: Path) -> None:
    tta_bench.run(["tent"], str(small_suite), limit=32, device="cpu", out=tmp_path / "run")
    results = tta_bench.run(["source"], str(small_suite), limit=32, device="cpu", out=tmp_path / "run")
    assert set(results.frame()["method"]) == {"source"}
    assert len(results.frame()) == 2


def test_costs_are_multiples_of_an_earlier_source(small_suite: Path, tmp_path: Path) -> None:
    tta_bench.run(["source"], str(small_suite), limit=64, device="cpu", out=tmp_path / "run")
    results = tta_bench.run(["tent"], str(small_suite), limit=64, device="cpu", out=tmp_path / "run")
    assert {row.label for row in results.comparison.rows} == {"source", "tent"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"methods": 3}, "^methods: expected names"),
        ({"methods": []}, r"^methods: \[\] is empty: name some, or leave it out"),
        ({"methods": {}}, "^methods: {} is empty: name some, or leave it out"),
        ({"methods": {"mine": 3}}, "'mine': expected settings or a Method class, got 3"),
        ({"methods": {"mine": dict}}, "expected a subclass of tta_bench.Method"),
        ({"methods": {"tent": Mine}}, "method 'tent' is installed already, by tta-bench"),
        ({"methods": {"my method": Mine}}, "its name may have letters"),
        ({"methods": ["tnt"]}, "unknown method 'tnt'; did you mean 'tent'"),
        ({"methods": ["source"], "tasks": ["fgo"]}, "has no task 'fgo'"),
        ({"methods": ["source"], "scenario": "nomral"}, "unknown scenario 'nomral'"),
        ({"methods": ["source"], "device": "gpu"}, "unknown device 'gpu'"),
        ({"methods": {"tent": {"lrr": 1}}}, "method 'tent' has no setting 'lrr'"),
    ],
)
def test_mistakes_are_one_line(small_suite: Path, tmp_path: Path, arguments: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        tta_bench.run(suite=str(small_suite), out=tmp_path / "run", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_run_is_the_function_even_after_importing_the_package_runs() -> None:
    code = "import tta_bench, tta_bench.cli.main, tta_bench.api, tta_bench.runs.resume; print(callable(tta_bench.run))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
