"""The embedded data and its source model match their notes."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch

from tta_bench.corruptions import CORRUPTIONS
from tta_bench.datasets import digits
from tta_bench.models import checkpoint
from tta_bench.models import source as models
from tta_bench.models.recipes import DIGITS_RECIPE, train_digits
from tta_bench.models.train import Target, evaluate, jitter

CPU = torch.device("cpu")


def test_the_split_is_fixed_and_disjoint() -> None:
    train, test = digits.clean("train"), digits.clean("test")
    assert (len(train.ids), len(test.ids)) == (900, 897)
    assert not set(train.ids) & set(test.ids)
    assert test.ids[:3] == FIRST_TEST_IDS  # recorded: another split would make all records incomparable
    assert np.bincount(test.labels).min() > 70


FIRST_TEST_IDS = ["digits/0003", "digits/0006", "digits/0008"]


def test_images_are_bytes_in_rgb() -> None:
    images = digits.clean("test").read(np.arange(5))
    assert (images.shape, images.dtype) == ((5, 3, 32, 32), np.uint8)
    assert images.std() > 10


def test_a_corrupted_image_does_not_depend_on_the_others() -> None:
    from tta_bench.corruptions import corrupt

    test, bad = digits.stream_images(), digits.corrupted("gaussian_noise", 5)
    assert len(bad.ids) == 640
    one = test.read(np.array([7]))[0].transpose(1, 2, 0)
    alone = corrupt(one, "gaussian_noise", 5, image_id=test.ids[7], scale="small")
    assert np.array_equal(bad.read(np.array([7]))[0].transpose(1, 2, 0), alone)
    assert bad.ids == test.ids


def note() -> str:
    return (resources.files("tta_bench.models.checkpoints") / "digits_vit.md").read_text()


def test_the_checkpoint_is_small_and_has_its_note() -> None:
    file = resources.files("tta_bench.models.checkpoints") / "digits_vit.safetensors"
    assert len(file.read_bytes()) <= 3_000_000
    assert models.load("digits-vit").weights_hash in note()


def network_and_note() -> tuple[torch.nn.Module, checkpoint.ModelNote]:
    with resources.as_file(resources.files("tta_bench.models.checkpoints") / "digits_vit.safetensors") as path:
        weights, header = checkpoint.load(path)
    network = checkpoint.build(header)
    network.load_state_dict(weights)
    return network, header


def test_clean_accuracy_is_as_noted() -> None:
    network, header = network_and_note()
    accuracy = evaluate(network, header, digits.clean("test"), CPU)
    assert accuracy >= 0.97
    assert accuracy == pytest.approx(header.made_by["clean_test_accuracy"], abs=0.003)
    (noted,) = re.findall(r"([\d.]+) % on the clean test split", note())
    assert 100 * accuracy == pytest.approx(float(noted), abs=0.3)


def test_severity_5_leaves_room_to_adapt() -> None:
    network, header = network_and_note()
    mean = np.mean([evaluate(network, header, digits.corrupted(name, 5), CPU) for name in CORRUPTIONS])
    assert 0.40 <= mean <= 0.75


def test_the_model_has_twelve_blocks() -> None:
    assert len(models.load("digits-vit").network.blocks) == 12  # type: ignore[arg-type]


def test_the_model_normalises_inside() -> None:
    source = models.load("digits-vit")
    images = torch.rand(2, 3, 32, 32)
    normalised = (images - source.mean[0]) / source.std[0]
    inside, outside = source.fresh(CPU), source.network
    torch.testing.assert_close(inside(images), outside(normalised))
    torch.testing.assert_close(inside.forward_features(images), outside.forward_features(normalised))


def test_training_is_repeatable_and_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    for name in ("a", "b"):
        train_digits(replace(DIGITS_RECIPE, epochs=1), Target(tmp_path / f"{name}.safetensors", CPU, quiet))
    assert torch.equal(before, torch.get_rng_state())
    first, second = (checkpoint.load(tmp_path / f"{name}.safetensors")[0] for name in ("a", "b"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert models.load(str(tmp_path / "a.safetensors")).num_classes == 10


def quiet(done: int, total: int, loss: float) -> None:
    pass


def test_an_interrupted_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    def interrupt(done: int, total: int, loss: float) -> None:
        if done == 1:
            raise KeyboardInterrupt

    recipe = replace(DIGITS_RECIPE, epochs=2)
    with pytest.raises(KeyboardInterrupt):
        train_digits(recipe, Target(tmp_path / "a.safetensors", CPU, interrupt))
    assert not (tmp_path / "a.safetensors").exists()
    for name in ("a", "b"):
        train_digits(recipe, Target(tmp_path / f"{name}.safetensors", CPU, quiet))
    first, second = (checkpoint.load(tmp_path / f"{name}.safetensors")[0] for name in ("a", "b"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not (tmp_path / "a.resume").exists()


def test_jitter_moves_but_keeps_the_paper() -> None:
    page = torch.full((4, 3, 32, 32), 0.25)
    torch.testing.assert_close(jitter(page, torch.Generator().manual_seed(0)), page)
