"""Shared by all tests: one thread, small suites, and a way to run the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tests import boards, downloads
from tests.boards import ENTRY, submit, whole_run
from tests.folders import make_inspection, make_run, make_sweep
from tests.servers import Website, serve
from tests.small import stir
from tests.vits import TINY
from tta_bench.board.submission import Who
from tta_bench.cli.main import main
from tta_bench.download import transfer
from tta_bench.registry import installed
from tta_bench.suites import suite as suites
from tta_bench.verify import streams

torch.set_num_threads(1)
os.environ["TTA_BENCH_IN_PROCESS"] = "1"  # a worker takes seconds to start; test_workers.py has its own

SMALL = """
name: small
about: two tasks of the embedded digits
data: {kind: digits-c, severity: 5}
tasks: [contrast, brightness]
model: digits-vit
batch_size: 32
methods: {source: {}, tent: {lr: 1e-3}}
"""

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run `tta-bench` in this process; returns exit status, stdout and stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        try:
            status = main([str(word) for word in words])
        except SystemExit as stop:  # argparse exits this way
            status = int(stop.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture(autouse=True)
def _no_given_methods() -> Iterator[None]:
    """Classes that a test registers end with it."""
    yield
    installed().given.clear()


@pytest.fixture
def small_suite(tmp_path: Path) -> Path:
    """A suite file of two tasks, quick with --limit."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder, for figures."""
    return make_run(tmp_path / "run")


@pytest.fixture
def sweep_folder(tmp_path: Path) -> Path:
    """A sweep's folder, for figures."""
    return make_sweep(tmp_path / "sweep")


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """An inspection's folder, for figures."""
    return make_inspection(tmp_path / "seen")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloads in small chunks, and tries again at once."""
    monkeypatch.setattr(transfer, "PAUSE", 0.001)
    monkeypatch.setattr(transfer, "CHUNK", 8192)


@pytest.fixture
def website(hurried: None) -> Iterator[Website]:
    """A server on loopback that has a small CIFAR-10-C.tar."""
    with serve(Website({"CIFAR-10-C.tar": downloads.TAR})) as site:
        yield site


@pytest.fixture(scope="session")
def tiny() -> VisionTransformer:
    """A small ViT with twelve classes; not to be changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: VisionTransformer = timm.create_model(TINY, num_classes=12)
        stir(network)
    return network.eval()


@pytest.fixture(scope="session")
def images() -> Tensor:
    """Two images for it."""
    return torch.rand(2, 3, 160, 160, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def small_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs two small suites, and keeps their streams."""
    monkeypatch.setattr(suites, "library", boards.library)
    monkeypatch.setattr(streams, "_expected", boards.expected)


@pytest.fixture(scope="session")
def board_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run of a small suite."""
    return whole_run(tmp_path_factory.mktemp("board") / "run")


@pytest.fixture
def good(small_board: None, board_run: Path, tmp_path: Path) -> Path:
    """A submission that is accepted."""
    return submit(board_run, tmp_path / "incoming" / "mine")


@pytest.fixture
def board(small_board: None, tmp_path: Path) -> Path:
    """A board with an entry of somebody else, whose predictions differ from ours."""
    theirs = whole_run(tmp_path / "theirs", ("source", "tent"))
    entry = replace(ENTRY, who=Who("Bob", "https://example.org/bob"), package="built-in", settings={})
    submit(theirs, tmp_path / "board" / "bobs", entry)
    return tmp_path / "board"
