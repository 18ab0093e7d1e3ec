"""`--model-args`: a timm model with another input size, its weights from a file; part of a cell's identity."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

from tests.support.cli import Cli
from tests.support.vits import TINY
from tta_bench.errors import UserError
from tta_bench.models import checkpoint
from tta_bench.models import source as models
from tta_bench.models.names import findable, model_files
from tta_bench.records.store import Store
from tta_bench.runs.options import RunOptions

TAG = f"{TINY}.r160_in1k"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Weights of a ViT at 32 px with ten classes, where the tag has 160 px and 1000 classes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = timm.create_model(TINY, img_size=32, num_classes=10)
    save_file(network.state_dict(), tmp_path / "small.safetensors")
    return tmp_path / "small.safetensors"


def test_the_size_is_the_given_one_and_the_classes_are_the_files(file: Path) -> None:
    name = RunOptions(model=f"{TAG}={file}", model_args="img_size=32").model
    assert name == f"timm:{TAG},img_size:32={file}"
    assert (model_files(name), findable(name)) == ((file,), name)
    source = models.load(name)
    assert (source.name, source.num_classes, source.input_size) == (f"timm:{TAG},img_size:32", 10, 32)
    assert (source.mean, source.interpolation) == ((0.5,) * 3, "bicubic")  # the tag's
    assert source.weights_hash == checkpoint.weights_hash(models.load(name).network.state_dict())
    assert source.network(torch.rand(1, 3, 32, 32)).shape == (1, 10)


def test_another_argument_is_another_cell(cli: Cli, file: Path, small_suite: Path) -> None:
    """Weights that fit with both values, as attention's number of heads, still make two models."""
    run = ("run", "--suite", small_suite, "--tasks", "contrast", "--limit", 8, "--methods", "source", "--out", "run")
    for heads in (2, 4):
        given = ("--model", f"{TAG}={file}", "--model-args", f"img_size=32,num_heads={heads}")
        assert cli(*run, *given, "--in-process", "--device", "cpu")[0] == 0
    found = {record.cell.spec.model: record.cell.found.weights for record in Store(Path("run")).records()}
    assert [name.rpartition(":")[2].partition("=")[0] for name in sorted(found)] == ["2", "4"]
    assert len(set(found.values())) == 1


@pytest.mark.parametrize(
    ("model", "given", "why"),
    [
        (None, "img_size=98", "requires --model TAG=FILE, a timm model with weights from a file (got none)"),
        ("digits-vit", "img_size=98", "requires --model TAG=FILE"),
        ("tv:resnet50=w.pth", "img_size=98", "requires --model TAG=FILE"),
        ("a=b", "img_size", "expected NAME=VALUE, joined by commas, as in img_size=98 (got 'img_size')"),
        ("a=b", "img_size=98,", "expected NAME=VALUE"),
        ("a=b", "img_size=98,img_size=98", "img_size is given twice"),
        ("a=b", "num_classes=3", "num_classes follows from the file"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(model: str | None, given: str, why: str) -> None:
    with pytest.raises(UserError) as refusal:
        RunOptions(model=model, model_args=given)
    assert str(refusal.value).startswith(f"--model-args {given}: ")
    assert why in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("tag", "given", "why"),
    [
        (TAG, "img_size:64", "weights do not fit 'test_vit.r160_in1k' with img_size=64: size mismatch: pos_embed"),
        (TAG, "pixels:32", "unexpected keyword argument 'pixels'"),
        (TAG, "img_size:wide", "cannot be built"),
        ("resnet10t.c3_in1k", "img_size:32", "unexpected keyword argument 'img_size'"),
        ("no_such_vit", "img_size:32", "unknown model 'no_such_vit'"),
    ],
)
def test_arguments_that_do_not_fit_are_one_line(file: Path, tag: str, given: str, why: str) -> None:
    with pytest.raises(UserError) as refusal:
        models.load(f"timm:{tag},{given}={file}")
    assert why in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["timm:", "timm:vit", "timm:vit=f.pth", "timm:vit,img_size:3"])
def test_a_name_without_its_parts_says_what_is_expected(name: str) -> None:
    with pytest.raises(UserError, match="TAG=FILE --model-args NAME=VALUE"):
        models.load(name)
