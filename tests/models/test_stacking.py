"""A ViT that is trained in stages: each doubles the blocks of the one before, and an interruption loses nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.support.cli import Cli
from tta_bench.models import checkpoint, recipes
from tta_bench.models import source as models
from tta_bench.models.recipes import DIGIT_PAIRS_NOTE, DIGIT_PAIRS_RECIPE, train_digit_pairs
from tta_bench.models.stacking import doubled
from tta_bench.models.train import Target

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "DIGIT_PAIRS_EPOCH", 128)
    monkeypatch.setattr(recipes, "DIGIT_PAIRS_TEST", 64)


def quiet(done: int, total: int, loss: float) -> None:
    pass


def train(out: Path, *, fresh: bool = False, progress: recipes.Progress = quiet) -> None:
    train_digit_pairs(replace(DIGIT_PAIRS_RECIPE, epochs=6), Target(out, CPU, progress, fresh))


def assert_same(first: Path, second: Path) -> None:
    one, other = (checkpoint.load(path)[0] for path in (first, second))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_blocks_are_doubled_and_their_branches_halved() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        shallow = checkpoint.build(replace(DIGIT_PAIRS_NOTE, architecture={**recipes.DIGIT_PAIRS_VIT, "depth": 3}))
    images = torch.rand(2, 3, 16, 32)
    before = shallow.eval()(images)
    deep = doubled(shallow)
    assert len(deep.blocks) == 6  # type: ignore[arg-type]
    assert len(set(map(id, deep.parameters()))) == len(list(deep.parameters()))
    own, given = deep.state_dict(), shallow.state_dict()
    for i in range(6):
        for name in ("attn.proj.weight", "attn.proj.bias", "mlp.fc2.weight", "mlp.fc2.bias"):
            assert torch.equal(own[f"blocks.{i}.{name}"], given[f"blocks.{i // 2}.{name}"] / 2)
        assert torch.equal(own[f"blocks.{i}.norm1.weight"], given[f"blocks.{i // 2}.norm1.weight"])
    assert torch.equal(shallow(images), before), "the shallow model is left as it was"
    assert (deep(images) - before).abs().mean() < 0.2 * before.abs().mean(), "it starts from what the other knew"


def test_an_interrupted_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = tmp_path / "whole.safetensors"
    reported: list[tuple[int, int]] = []
    train(whole, progress=lambda done, total, loss: reported.append((done, total)))
    assert reported == [(done, 6) for done in range(1, 7)]
    assert [path.name for path in tmp_path.iterdir()] == ["whole.safetensors"]
    assert len(models.load(str(whole)).network.blocks) == 12  # type: ignore[arg-type]

    parts = tmp_path / "parts.safetensors"
    for stop in (1, 3, 5):  # in the first stage, at the end of the second, in the last

        def interrupt(done: int, total: int, loss: float, stop: int = stop) -> None:
            if done == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(parts, progress=interrupt)
    left: list[int] = []
    train(parts, progress=lambda done, total, loss: left.append(done))
    assert left == [6]
    assert_same(whole, parts)

    with pytest.raises(KeyboardInterrupt):
        train(parts, progress=interrupt)
    train(parts, fresh=True)
    assert_same(whole, parts)


def test_the_command_says_what_made_the_model(cli: Cli, tmp_path: Path) -> None:
    status, shown, err = cli("train-source", "digit-pairs", "--seed", 7, "--epochs", 3)
    assert (status, err) == (0, "")
    assert "training: 3 of 3 epochs, loss" in shown
    assert "digit_pairs_vit.safetensors" in shown
    note = (tmp_path / "digit_pairs_vit.md").read_text()
    assert "made by `tta-bench train-source digit-pairs --seed 7 --epochs 3`" in note


def test_a_stage_needs_an_epoch(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "short.safetensors"
    status, _, err = cli("train-source", "digit-pairs", "--epochs", 2, "--out", out)
    assert (status, err.count("\n")) == (2, 1)
    assert "--epochs 2: this model is trained in 3 stages" in err


def test_pairs_have_no_domains(cli: Cli) -> None:
    status, _, err = cli("train-source", "digit-pairs", "--domain", "Art")
    assert (status, err.count("\n")) == (2, 1)
    assert "train-source digit-pairs takes no --domain" in err
