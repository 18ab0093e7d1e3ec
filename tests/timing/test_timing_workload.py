"""`timing` adapts to what was requested: also when repeated from a baseline, in another folder or process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support import trees
from tests.support.cli import Cli
from tta_bench.measure import baseline
from tta_bench.measure.process import restored
from tta_bench.models import checkpoint
from tta_bench.models.names import findable
from tta_bench.simulated import SimulatedGpus
from tta_bench.timing import steps
from tta_bench.timing.sides import LocalSide
from tta_bench.timing.workload import Spec, prepare, repeat

FILE = "office-home-Art.safetensors"
TAG = "test_vit.r160_in1k"  # timm's smallest ViT
SUITE = """
name: few
about: a few images of Office-Home
data: {kind: office-home, allow_partial: true}
tasks: [Art-to-Clipart]
model: by-task
batch_size: 2
methods: {source: {}}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A baseline of two methods, each with its own setting."""
    from tta_bench.cli.main import main

    path = tmp_path_factory.mktemp("timing") / "b.json"
    what = ["--methods", "tent,sar", "--set", "sar.lr=0.01", "--set", "tent.lr=0.002"]
    short = ["--batch-size", "4", "--batches", "1", "--budget", "1s", "--device", "cpu:0"]
    assert main(["timing", "record", "--out", str(path), *what, *short]) == 0
    return path


def test_a_baseline_with_settings_can_be_checked(cli: Cli, recorded: Path) -> None:
    code, out, err = cli("timing", "check", "--baseline", recorded, "--exact-only")
    assert (code, err) == (0, "")
    assert "sar (lr=0.01): the same counts" in out
    assert "tent (lr=0.002): the same counts" in out


def test_methods_keep_the_names_from_the_command(cli: Cli, recorded: Path) -> None:
    code, out, err = cli("timing", "check", "--baseline", recorded, "--exact-only", "--methods", "sar")
    assert (code, err) == (0, "")
    assert "sar (lr=0.01): the same counts" in out
    assert "tent" not in out
    code, _, err = cli("timing", "check", "--baseline", recorded, "--methods", "eata")
    assert (code, err.count("\n")) == (2, 1)
    assert "--methods eata: not in the baseline (known: sar, source, tent)" in err


def test_the_device_keeps_its_number(recorded: Path) -> None:
    assert repeat(baseline.read(recorded).workload).device == "cpu:0"


def test_the_chosen_gpu_is_the_current_one_where_steps_run() -> None:
    with restored(), SimulatedGpus(2):
        batches = [torch.rand(2, 3, 32, 32)]
        made = steps.Workload("digits-vit", 10, None, 2, "cuda:1", 1, {"source": ("source", {})}, batches, [])
        steps.Steps(made, "source")
        assert torch.cuda.current_device() == 1


@pytest.mark.parametrize("model", [None, f"models/{FILE}", f"{TAG}=models/{FILE}"])
def test_a_model_file_is_found_from_another_folder(
    model: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a child process of --against finds it; by default it is the file of the task's domain."""
    trees.office_home(tmp_path)
    note = checkpoint.ModelNote({"timm": "test_vit", "num_classes": 3}, (0.5,) * 3, (0.5,) * 3)
    checkpoint.save(checkpoint.build(note), note, tmp_path / "models" / FILE)
    (tmp_path / "few.yaml").write_text(SUITE)
    (tmp_path / "elsewhere").mkdir()
    prepared = prepare(Spec(suite="few.yaml", batches=1, model=model), Path())
    assert prepared.identity.model == model, "a baseline may be checked on another machine"
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert LocalSide(prepared.workload).counts("source")["sample_forwards"] == 2


def test_a_path_may_hold_an_equals_sign(tmp_path: Path) -> None:
    assert findable("vit=a=b/w.npz") == f"vit={tmp_path}/a=b/w.npz"
    assert findable("vit=~/w.npz") == f"vit={Path.home()}/w.npz"
    assert [findable(name) for name in ("digits-vit", TAG)] == ["digits-vit", TAG]
